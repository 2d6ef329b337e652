"""The ``server.properties`` with which Apache Kafka starts on a graduated directory, for its operator to go on from."""

from __future__ import annotations

from pathlib import Path

from mainstem.broker.storage.topics import INTERNAL_TOPICS, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from mainstem.kafka_directory.cluster_state import ClusterState

_PARTITIONS_SETTING = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.num.partitions",
}
_ONE_NODE = """\
# One node: with three brokers, take these out.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def server_properties(cluster: ClusterState, node_id: int, directory: Path) -> bytes:
    """The file's bytes."""
    lines = [
        "# Apache Kafka 4.3 starts on this directory: kafka-server-start.sh server.properties",
        "process.roles=broker,controller",
        f"node.id={node_id}",
        f"controller.quorum.voters={node_id}@127.0.0.1:9093",
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "advertised.listeners=PLAINTEXT://127.0.0.1:9092",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT",
        f"log.dirs={directory.absolute()}",
    ]
    for topic in sorted(INTERNAL_TOPICS & cluster.topics.keys()):
        lines.append(f"{_PARTITIONS_SETTING[topic]}={cluster.topics[topic].partitions}")
    if cluster.acls:
        lines.append("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        lines.append("# Name your administrators, and the principal of the controller's own listener:")
        lines.append("super.users=User:ANONYMOUS")
    if cluster.credentials:
        lines.append("# Users log in by SCRAM: add a SASL listener, and")
        lines.append("sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512")
    return ("\n".join(lines) + "\n" + _ONE_NODE).encode()
