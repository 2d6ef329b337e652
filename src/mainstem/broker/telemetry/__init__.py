"""Metrics that clients send (KIP-714).

* ``otlp``: reads OpenTelemetry's protobuf encoding, bounded
* ``subscription_configs``: the configs of subscriptions, which the operator sets
* ``client_instances``: which client sends what, and when it may send again
* ``received_metrics``: the series for ``/metrics``, bounded
* ``telemetry``: these together, as the handlers use them
"""
