"""Settings: of the broker, of groups, and their form in the protocol.

* ``broker_config``: the broker's settings with types, bounds and defaults
* ``request_settings``: the settings that handlers read
* ``dynamic_configs``: the current values: default, at start, changed while running
* ``config_changes``: AlterConfigs and IncrementalAlterConfigs, resource by resource
* ``config_entries``: settings as DescribeConfigs shows them
* ``group_configs``: settings of single groups
* ``client_metrics_configs``: settings of subscriptions to client metrics
* ``group_settings``: the broker's settings for consumer groups and share groups
* ``security_settings``: settings of security and quotas
"""
