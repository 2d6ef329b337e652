"""What a mirror refuses, each with one error that says what is in the way, and the source as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mainstem.broker.access.acls import Operation, Permission, ResourceType
from mainstem.broker.security.local_users import local_credentials
from mainstem.client.failures import error_of
from mainstem.client.security import Security
from mainstem.client.wire.admin.access import add_acls
from mainstem.client.wire.cluster.cluster import LATEST, WireClient
from mainstem.client.wire.cluster.topics import create_topic, delete_topic, set_topic_configs
from mainstem.errors import AuthorizationError, InputError, MirrorRefusedError, RemoteError
from mainstem.mirror.copying import Copying
from mainstem.mirror.link import Link
from mainstem.mirror.mirror import Mirror, MirrorOptions
from mainstem.mirror.rate import RateLimit, parse_rate
from mainstem.model import MIRROR_OF, TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_acls import AclCreation
from mainstem.protocol.scram import MECHANISMS, make_credential
from mainstem.record.writer import NewRecord, build_batch
from mainstem.testing.disk import FaultyDisk
from tests.broker.harness import LogProcess, running
from tests.cli.commands import Commands
from tests.mirror import writing
from tests.mirror.pairs import QUICK, assert_same, copy_all, ends
from tests.support.eventually import eventually
from tests.support.ports import free_port


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def test_a_topic_of_that_name_that_others_made(source: LogProcess, target: LogProcess, commands: Commands) -> None:
    writing.produce_plainly(source.bootstrap, "others", 10)
    writing.produce_plainly(target.bootstrap, "others", 3)
    argv = ("mirror", "--from", source.bootstrap, "--to", target.bootstrap, "--topics", "others")
    done = commands.run(*argv)
    assert done.code == 1
    assert "'others' at " in done.error
    assert "was made by others" in done.error
    assert len(writing.read(target.bootstrap, "others")) == 3
    assert commands.run(*argv, "--status", "--json").json["partitions"][0]["state"] == "not a mirror"


def test_a_copy_that_others_wrote_to_names_what_they_wrote(source: LogProcess, target: LogProcess) -> None:
    writing.produce_plainly(source.bootstrap, "written", 10)
    copy_all(source.bootstrap, target.bootstrap, "written")
    with WireClient(target.bootstrap) as client:
        set_topic_configs(client, "written", {}, reset=[MIRROR_OF])
    writing.produce_plainly(target.bootstrap, "written", 5, begin=50)
    for more in (3, 30):  # while the source is shorter than the copy, and when it is longer
        writing.produce_plainly(source.bootstrap, "written", more, begin=100)
        with pytest.raises(MirrorRefusedError, match=r"written/0:10-14; read them there"):
            copy_all(source.bootstrap, target.bootstrap, "written")
    writing.produce_plainly(target.bootstrap, "written", 1)
    assert len(writing.read(source.bootstrap, "written")) == 43


def test_a_source_that_was_recreated(source: LogProcess, target: LogProcess) -> None:
    writing.produce_plainly(source.bootstrap, "recreated", 10)
    copy_all(source.bootstrap, target.bootstrap, "recreated")
    with WireClient(source.bootstrap) as client:
        delete_topic(client, "recreated")
        create_topic(client, "recreated", partitions=1)
    with pytest.raises(MirrorRefusedError, match="deleted and recreated at the source"):
        copy_all(source.bootstrap, target.bootstrap, "recreated")
    assert len(writing.read(target.bootstrap, "recreated")) == 10


@contextmanager
def copied(source: LogProcess, target: LogProcess, topic: str) -> Iterator[tuple[Link, Mirror]]:
    """A mirror that has copied three records of a topic, and looks at the topics in ten minutes again."""
    writing.produce_plainly(source.bootstrap, topic, 3)
    with Link(WireClient(source.bootstrap), WireClient(target.bootstrap), topic) as link:
        mirror = Mirror(link, MirrorOptions(topics_every_s=600, groups_every_s=600), lambda _: None)
        try:
            mirror.begin()
            eventually(lambda: mirror.round() or mirror.state().copied_bytes, "the copy is there")
            yield link, mirror
        finally:
            mirror.close()


def test_a_source_that_is_recreated_while_the_mirror_runs(source: LogProcess, target: LogProcess) -> None:
    """Its records never get into the copy, also before the next look at the topics."""
    with copied(source, target, "recreated-later") as (_, mirror):
        with WireClient(source.bootstrap) as client:
            delete_topic(client, "recreated-later")
            create_topic(client, "recreated-later", partitions=1)
        writing.produce_plainly(source.bootstrap, "recreated-later", 9, begin=100)
        eventually(lambda: mirror.round() or mirror.state().set_aside, "the topic is set aside")
        assert "was deleted and recreated at" in mirror.state().set_aside["recreated-later"]
    assert len(writing.read(target.bootstrap, "recreated-later")) == 3


def test_a_copy_that_is_deleted_at_the_target_is_not_made_again(source: LogProcess, target: LogProcess) -> None:
    with copied(source, target, "deleted-there") as (link, mirror):
        with WireClient(target.bootstrap) as client:
            delete_topic(client, "deleted-there")
        writing.produce_plainly(source.bootstrap, "deleted-there", 9, begin=100)  # an append meets it
        eventually(lambda: mirror.round() or mirror.state().set_aside, "the topic is set aside")
        mirror._due_s["topics"] = 0.0  # and another look at the topics
        mirror.round()
        assert "was deleted at" in mirror.state().set_aside["deleted-there"]
        assert "deleted-there" not in link.target_topics()


@pytest.mark.parametrize("wrong", ["source", "target"])
def test_an_address_where_no_log_is(
    source: LogProcess, commands: Commands, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.cli.operation.mirror._TIMEOUT_S", 1.0)
    there = f"127.0.0.1:{free_port()}"
    addresses = (there, source.bootstrap) if wrong == "source" else (source.bootstrap, there)
    done = commands.run("mirror", "--from", addresses[0], "--to", addresses[1])
    assert done.code == 3
    assert there in done.error


def test_the_same_log_and_a_pattern_and_a_rate_that_are_none(source: LogProcess, commands: Commands) -> None:
    same = ("mirror", "--from", source.bootstrap, "--to", source.bootstrap)
    assert "are the same log" in commands.run(*same).error
    assert "not a regular expression" in commands.run(*same, "--topics", "(").error
    assert "give bytes per second" in commands.run(*same, "--rate", "fast").error
    assert "name the source" in commands.run("promote", "--to", source.bootstrap).error
    done = commands.run("promote", "--to", source.bootstrap, "--source-is-lost", "--topics", "none")
    assert "has no mirror among these topics" in done.error


def test_apache_kafka_cannot_be_the_target(apache_kafka: LogProcess, source: LogProcess, commands: Commands) -> None:
    done = commands.run("mirror", "--from", source.bootstrap, "--to", apache_kafka.bootstrap)
    assert done.code == 1
    assert "cannot be the target: only a Mainstem log" in done.error


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    """A log that knows admin, who may do everything, and alice, who may do nothing yet."""
    data = tmp_path_factory.mktemp("secured") / "data"
    with local_credentials(data) as credentials:
        for user in ("admin", "alice"):
            credentials.change({(user, name): make_credential(name, f"{user}-secret") for name in MECHANISMS})
    process = LogProcess(data, super_users="User:admin").start("--listen", "SASL_PLAINTEXT://127.0.0.1:0")
    yield process
    process.stop()


def _as(user: str) -> Security:
    return Security("SASL_PLAINTEXT", "SCRAM-SHA-256", user, f"{user}-secret")


@pytest.mark.parametrize("lacking", ["source", "target"])
def test_a_user_without_the_rights(source: LogProcess, secured: LogProcess, lacking: str) -> None:
    writing.produce_plainly(source.bootstrap, "rights", 10)
    plain = WireClient(source.bootstrap, security=Security())
    if lacking == "source":
        with WireClient(secured.bootstrap, security=_as("admin")) as admin:
            create_topic(admin, "hidden", partitions=1)
        clients = (WireClient(secured.bootstrap, security=_as("alice")), plain)
    else:
        clients = (plain, WireClient(secured.bootstrap, security=_as("alice")))
    with Link(*clients, "rights|hidden") as link:
        mirror = Mirror(link, QUICK, lambda _: None)
        if lacking == "target":
            with pytest.raises(AuthorizationError, match="rights"):
                mirror.begin()
        else:
            mirror.begin()  # alice sees no topic, so nothing is copied
            assert mirror.state().topics == 0
        mirror.close()


def test_a_user_without_cluster_action_is_named_it(source: LogProcess, secured: LogProcess) -> None:
    writing.produce_plainly(source.bootstrap, "action", 10)
    with Link(
        WireClient(source.bootstrap, security=Security()),
        WireClient(secured.bootstrap, security=_as("admin")),
        "action",
    ) as link:
        mirror = Mirror(link, QUICK, lambda _: None)
        mirror.begin()
        link.target.close()
        link.target = WireClient(secured.bootstrap, security=_as("alice"))
        copying = Copying(link)
        copying.partitions = {TopicPartition("action", 0): next(iter(mirror._copying.partitions.values()))}
        with pytest.raises(AuthorizationError, match="ClusterAction"):
            copying.step()
        copying.close()
        mirror.close()


def _allow(admin: WireClient, topic: str, *operations: Operation) -> None:
    """Give alice these rights on a topic of her log."""
    add_acls(
        admin,
        [
            AclCreation(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                principal="User:alice",
                host="*",
                operation=operation,
                permission_type=Permission.ALLOW,
            )
            for operation in operations
        ],
    )


def test_a_topic_whose_rights_come_later_is_copied_then(
    target: LogProcess, secured: LogProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.mirror.mirror._RETRY_S", 0.01)
    said: list[str] = []
    batch = build_batch([NewRecord(None, b"x", (), 1_700_000_000_000)])
    plain = WireClient(target.bootstrap, security=Security())
    with (
        WireClient(secured.bootstrap, security=_as("admin")) as admin,
        Link(WireClient(secured.bootstrap, security=_as("alice")), plain, "later-.*") as link,
    ):
        mirror = Mirror(link, QUICK, said.append)
        try:
            mirror.begin()
            create_topic(admin, "later-rights", partitions=1)
            admin.produce(TopicPartition("later-rights", 0), batch)
            _allow(admin, "later-rights", Operation.DESCRIBE)
            eventually(lambda: mirror.round() or mirror.state().set_aside, "the topic is set aside")
            for _ in range(3):
                mirror.round()
                mirror._wait_for_topic()  # as it does between rounds, rather than end
            assert len(said) == 1
            _allow(admin, "later-rights", Operation.DESCRIBE_CONFIGS, Operation.READ)
            eventually(lambda: mirror.round() or mirror.state().copied_bytes, "the topic is copied")
            assert mirror.state().set_aside == {}
            assert said[1:] == ["topic later-rights is copied now"]
        finally:
            mirror.close()
    assert [value for _, _, value in writing.read(target.bootstrap, "later-rights")] == [b"x"]


def test_a_mirror_goes_on_when_a_coordinator_has_moved_for_too_long(
    source: LogProcess, target: LogProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.mirror.mirror._RETRY_S", 0.01)
    said: list[str] = []
    with Link(WireClient(source.bootstrap), WireClient(target.bootstrap), "none") as link:
        mirror = Mirror(link, QUICK, said.append)
        moved = error_of(ErrorCode.NOT_COORDINATOR, "the committed offsets of group 'g' cannot be read")
        final = error_of(ErrorCode.UNSUPPORTED_VERSION, "the source is too old")
        ends = [moved, moved, final]

        def ends_with_an_error() -> None:
            raise ends.pop(0)

        monkeypatch.setattr(mirror, "round", ends_with_an_error)
        with pytest.raises(RemoteError, match="too old"):
            mirror.run()
        assert said == [str(moved)]
        mirror.close()


def test_a_mirror_without_a_topic_waits_between_its_rounds(
    source: LogProcess, target: LogProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.mirror.mirror._RETRY_S", 60.0)
    rounds: list[None] = []
    with Link(WireClient(source.bootstrap), WireClient(target.bootstrap), "none") as link:
        mirror = Mirror(link, QUICK, lambda _: None)
        mirror.begin()
        round_ = mirror.round
        monkeypatch.setattr(mirror, "round", lambda: rounds.append(round_()))
        with ThreadPoolExecutor(1) as threads:
            running_mirror = threads.submit(mirror.run)
            eventually(lambda: rounds, "a round is over")
            mirror.stop()
            running_mirror.result(30)
        mirror.close()
    assert len(rounds) == 1


def test_a_full_target_is_said_once_and_goes_on_when_there_is_room(
    source: LogProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.mirror.mirror._RETRY_S", 0.01)
    writing.create(source.bootstrap, "full")
    writing.produce_plainly(source.bootstrap, "full", 200)
    disk = FaultyDisk()
    said: list[str] = []

    def copy(bootstrap: str) -> None:
        with Link(WireClient(source.bootstrap), WireClient(bootstrap), "full") as link:
            mirror = Mirror(link, QUICK, said.append)
            mirror.begin()
            disk.capacity_bytes = disk.used_bytes() + 300
            for _ in range(5):
                mirror.round()
            assert len(said) == 1
            assert "full" in said[0]
            disk.capacity_bytes = None
            while ends(bootstrap, [TopicPartition("full", 0)]) != ends(source.bootstrap, [TopicPartition("full", 0)]):
                mirror.round()
            mirror.close()
        assert_same(source.bootstrap, bootstrap, "full")

    async def main() -> None:
        async with running(Path("/data"), disk=disk) as client:
            await asyncio.to_thread(copy, "{}:{}".format(*client.address))

    asyncio.run(main())


def test_a_rate_is_kept_and_read_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.mirror.rate.time", SimpleNamespace(monotonic=lambda: 100.0))
    waited: list[float] = []
    rate = RateLimit(1000, waited.append)
    rate.took(500)
    rate.took(500)
    assert waited == [0.5, 1.0]
    assert [parse_rate(text) for text in (None, "5", "2k", "3M", "1G")] == [None, 5, 2048, 3 << 20, 1 << 30]
    for wrong in ("", "0", "-1", "M", "1.5M", "1T"):
        with pytest.raises(InputError):
            parse_rate(wrong)


def test_an_unreachable_source_is_said_and_tried_again(source: LogProcess, target: LogProcess, tmp_path: Path) -> None:
    with LogProcess(tmp_path / "other") as other:
        writing.produce_plainly(other.bootstrap, "again", 10)
        with Link(WireClient(other.bootstrap), WireClient(target.bootstrap), "again") as link:
            said: list[str] = []
            mirror = Mirror(link, QUICK, said.append)
            mirror.begin()
            other.kill()
            link.source.timeout_s, patience_s = 0.5, link.source.timeout_s
            with pytest.raises(Exception, match=r"gave up|connect"):
                mirror.round()
            link.source.timeout_s = patience_s
            other.start()
            while link.target.list_offsets([TopicPartition("again", 0)], LATEST)[TopicPartition("again", 0)] < 10:
                mirror.round()
            mirror.close()
        assert_same(other.bootstrap, target.bootstrap, "again")
