"""What goes along beside records: share groups, ACLs, quotas, and the metrics of a mirror."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.broker.security.local_users import local_credentials
from mainstem.client.admin.access_admin import AccessAdmin
from mainstem.client.security import Security
from mainstem.client.wire.admin.quotas import alter_quotas, quotas
from mainstem.client.wire.admin.share_offsets import set_share_start_offsets, share_start_offsets
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import GroupNotEmptyError, OffsetOutOfRangeError
from mainstem.gateway.monitoring.snapshots import read_metrics
from mainstem.mirror.link import Link
from mainstem.mirror.mirror import Mirror, MirrorOptions
from mainstem.model import TopicPartition
from mainstem.protocol.scram import MECHANISMS, make_credential
from tests.broker.harness import Client, LogProcess
from tests.broker.share.member import Member
from tests.mirror import writing
from tests.mirror.pairs import QUICK, MirrorProcess, copy_all, linked
from tests.support.certificates import Authority
from tests.support.eventually import eventually

WITH_RIGHTS = MirrorOptions(topics_every_s=0, groups_every_s=0, rights=True)


def test_a_share_group_begins_at_the_target_where_it_does_at_the_source(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "shared", 2)
    writing.produce(source.bootstrap, "shared", 60)
    begun = {TopicPartition("shared", 0): 7, TopicPartition("shared", 1): 3}
    with WireClient(source.bootstrap) as one, WireClient(target.bootstrap) as two:
        set_share_start_offsets(one, "workers", begun)
        copy_all(source.bootstrap, target.bootstrap, "shared")
        assert share_start_offsets(two, "workers") == begun
        moved = {**begun, TopicPartition("shared", 0): 12}
        set_share_start_offsets(one, "workers", moved)
        copy_all(source.bootstrap, target.bootstrap, "shared")
        assert share_start_offsets(two, "workers") == moved
        with pytest.raises(OffsetOutOfRangeError, match="1000 is not in"):
            set_share_start_offsets(two, "workers", {TopicPartition("shared", 0): 1_000})


def test_a_share_group_with_members_at_the_target_keeps_its_own(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "busy")
    writing.produce(source.bootstrap, "busy", 30)
    tp = TopicPartition("busy", 0)
    said: list[str] = []
    with linked(source.bootstrap, target.bootstrap, "busy") as link:
        mirror = Mirror(link, QUICK, said.append)
        mirror.begin()
        eventually(lambda: mirror.round() or mirror.state().lag_records == 0, "all is copied")

        host, _, port = target.bootstrap.rpartition(":")

        async def join() -> None:
            client = await Client((host, int(port)), None).connect()  # type: ignore[arg-type]
            await Member(client, group="crew").heartbeat(["busy"], 0)
            client.close()

        asyncio.run(join())
        set_share_start_offsets(link.source, "crew", {tp: 9})
        mirror.carry_groups()
        assert said == ["group crew has members at the target: its offsets are not carried over"]
        with pytest.raises(GroupNotEmptyError, match="crew"):
            set_share_start_offsets(link.target, "crew", {tp: 9})
        mirror.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LogProcess, LogProcess, Path]]:
    """Two logs behind TLS and SASL, with the user admin, and the certificate of their authority."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    certificate, key = authority.issue("log")
    logs = []
    for name in ("source", "target"):
        data = tmp_path_factory.mktemp(name) / "data"
        with local_credentials(data) as credentials:
            credentials.change({("admin", each): make_credential(each, "admin-secret") for each in MECHANISMS})
        process = LogProcess(
            data, super_users="User:admin", ssl_certificate_location=str(certificate), ssl_key_location=str(key)
        )
        logs.append(process.start("--listen", "SASL_SSL://127.0.0.1:0"))
    yield logs[0], logs[1], authority.certificate
    for log in logs:
        log.stop()


def test_rights_and_quotas_are_carried_and_taken_back(
    secured: tuple[LogProcess, LogProcess, Path], tmp_path: Path
) -> None:
    source, target, authority = secured
    security = Security("SASL_SSL", "SCRAM-SHA-256", "admin", "admin-secret", str(authority))

    def client(log: LogProcess) -> WireClient:
        return WireClient(log.bootstrap, security=security)

    there, here = (AccessAdmin(lambda log=log: client(log)) for log in (source, target))  # type: ignore[misc]
    alice, everyone = frozenset({("user", "alice")}), frozenset({("client-id", None)})
    there.add_acls("User:alice", ["read", "describe"], ["topic:orders"])
    there.add_acls("User:bob", ["write"], ["topic:orders-"], prefix=True, deny=True, host="10.0.0.1")
    there.add_acls("User:admin", ["alter"], ["cluster"])
    here.add_acls("User:carol", ["read"], ["topic:local"])
    with Link(client(source), client(target)) as link:
        alter_quotas(link.source, alice, {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6})
        alter_quotas(link.source, everyone, {"request_percentage": 50.0})
        alter_quotas(link.target, frozenset({("user", "carol")}), {"producer_byte_rate": 5.0})
        mirror = Mirror(link, WITH_RIGHTS, lambda _: None)
        mirror.begin()
        mirror.round()
        own = here.acls("User:carol")
        wanted = [rule for rule in there.acls() if rule.resource != "Cluster"]
        assert len(own) == 1
        assert len(wanted) == 3
        assert sorted(here.acls(), key=str) == sorted(wanted + own, key=str)
        assert quotas(link.target) == {**quotas(link.source), frozenset({("user", "carol")}): {"producer_byte_rate": 5}}

        there.remove_acls("User:alice", ["topic:orders"], ["read"])
        alter_quotas(link.source, alice, {"producer_byte_rate": 3e6}, ["consumer_byte_rate"])
        alter_quotas(link.source, everyone, {}, ["request_percentage"])
        mirror.round()
        assert [rule.operation for rule in here.acls("User:alice")] == ["Describe"]
        assert quotas(link.target)[alice] == {"producer_byte_rate": 3e6}
        assert everyone not in quotas(link.target)
        assert here.acls("User:carol") == own
        mirror.close()


def test_the_process_copies_over_tls_by_its_files_of_options(
    secured: tuple[LogProcess, LogProcess, Path], tmp_path: Path
) -> None:
    source, target, authority = secured
    config = tmp_path / "client.properties"
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "admin",
        "sasl.password": "admin-secret",
        "ssl.ca.location": str(authority),
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    metrics = tmp_path / "mirror.prom"
    options = {**lines, "sasl.mechanisms": lines["sasl.mechanism"]}
    del options["sasl.mechanism"]
    writing.produce(source.bootstrap, "private", 100, **options)
    argv = ("--from-config", str(config), "--to-config", str(config), "--rights", "--metrics", str(metrics))
    with MirrorProcess(source.bootstrap, target.bootstrap, tmp_path / "mirror.log", *argv) as mirror:
        mirror.wait_ready()

        def is_level() -> bool:
            found = read_metrics(metrics.read_bytes()) if metrics.exists() else {}
            return "mainstem_mirror_level_until_seconds" in found and "mainstem_mirror_lag_records 0\n" in text()

        def text() -> str:
            return metrics.read_text()

        eventually(is_level, "the metrics say that the copy is level", 60)
        assert "mainstem_mirror_topics_set_aside 0\n" in text()
        assert mirror.end() == 0, mirror.text
    assert "mainstem_mirror_partitions" in text()
