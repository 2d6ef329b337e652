"""A capture into a log with ACLs: the rights that it needs, and those that it does without."""

from __future__ import annotations

from mainstem.broker.access.acls import Operation, PatternType, Permission, ResourceType
from mainstem.client.log import Log
from mainstem.client.wire.admin.access import add_acls
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.protocol.messages.create_acls import AclCreation
from mainstem.testing.embedded import EmbeddedBroker
from tests.postgres.conftest import RunningCapture, Shop
from tests.support.postgres import PostgresDatabase

NEEDED = (Operation.CREATE, Operation.WRITE, Operation.READ, Operation.DESCRIBE_CONFIGS)
TOPICS = ("s", "__mainstem_progress", "__mainstem_pipeline_states", "__mainstem_schemas")


def allow(log: Log, kind: ResourceType, name: str, operations: tuple[Operation, ...]) -> None:
    """Allow alice operations on all resources whose names begin so."""
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.PREFIXED,
            principal="User:alice",
            host="*",
            operation=each,
            permission_type=Permission.ALLOW,
        )
        for each in operations
    ]
    with WireClient(log.bootstrap, security=log.security) as client:
        add_acls(client, creations)


def test_a_capture_runs_without_the_right_to_the_log_of_pipelines(postgres_database: PostgresDatabase) -> None:
    users = {"admin": "secret", "alice": "secret"}
    with EmbeddedBroker(settings={"super.users": "User:admin"}, users=users) as broker:
        with Log(broker.bootstrap, security=broker.security("admin")) as admin:
            for topic in TOPICS:
                allow(admin, ResourceType.TOPIC, topic, NEEDED)
            allow(admin, ResourceType.TRANSACTIONAL_ID, "mainstem-", (Operation.WRITE, Operation.DESCRIBE))
        with Log(broker.bootstrap, security=broker.security("alice"), timeout_s=10) as log:
            shop = Shop(log, postgres_database, "s" + postgres_database.name.replace("_", "-"))
            shop.execute("CREATE TABLE orders (id int PRIMARY KEY, item text); INSERT INTO orders VALUES (1, 'a')")
            with RunningCapture(log, shop.settings()) as capture:
                capture.caught_up(shop.database)
            assert shop.fold() == shop.rows()
    [warning] = [note for note in capture.notes if "mainstem pipelines log" in note]
    assert warning.startswith("WARNING: mainstem pipelines log will not show this capture: ")
    assert "__mainstem_pipeline_log" in warning
