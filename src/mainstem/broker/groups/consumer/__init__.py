"""Consumer groups of KIP-848: ConsumerGroupHeartbeat.

* ``consumer_group``: the state of one group: members, target and current assignment
* ``consumer_steps``: pure steps: heartbeat, leave, deadlines
* ``consumer_coordinator``: runs the steps, writes their records, keeps their deadlines
* ``consumer_records``: records in Kafka's format
* ``consumer_replay``: groups from their records
* ``assignors``: which member gets which partitions
* ``reconcile``: a member's next step from its current to its target assignment
* ``topic_patterns``: topics by regular expression
"""
