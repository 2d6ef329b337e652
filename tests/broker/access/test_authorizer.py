"""The authorizer's judgement: Kafka's rules, one by one."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from mainstem.broker.access.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from mainstem.broker.access.authorizer import ACLS, Authorizer
from mainstem.broker.security.principal import Principal
from mainstem.errors import RemoteError
from mainstem.log.node.node_log import NodeLog
from mainstem.testing import FaultyDisk, ManualClock

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
ROOT = Principal("User", "root")
TOPIC = ResourceType.TOPIC


def acl(
    name: str = "t",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(TOPIC, name, pattern, principal, host, operation, permission)


def judge(*acls: Acl, allows_unlisted: bool = False) -> Authorizer:
    node_log = NodeLog.open(FaultyDisk(), ManualClock(), Path("/data"), {})
    authorizer = Authorizer(node_log.metadata, [ROOT], allows_unlisted=allows_unlisted)
    authorizer.add(acls)
    return authorizer


def may(authorizer: Authorizer, operation: Operation, name: str = "t", who: Principal = ALICE, host: str = "h") -> bool:
    return authorizer.allows(who, host, operation, TOPIC, name)


def test_what_no_acl_is_about_is_refused() -> None:
    assert not may(judge(), Operation.READ)


def test_what_no_acl_is_about_is_allowed_when_the_settings_say_so() -> None:
    authorizer = judge(acl("other"), allows_unlisted=True)
    assert may(authorizer, Operation.READ)
    assert not may(authorizer, Operation.READ, "other", BOB)


def test_a_super_user_may_do_what_is_denied_to_everyone() -> None:
    authorizer = judge(acl(operation=Operation.ALL, permission=Permission.DENY, principal="User:*"))
    assert may(authorizer, Operation.DELETE, who=ROOT)


def test_an_acl_allows_its_operation_to_its_principal_alone() -> None:
    authorizer = judge(acl())
    assert may(authorizer, Operation.READ)
    assert not may(authorizer, Operation.WRITE)
    assert not may(authorizer, Operation.READ, who=BOB)
    assert not may(authorizer, Operation.READ, "u")


def test_a_denial_wins_over_what_is_allowed() -> None:
    denied = acl(permission=Permission.DENY)
    assert not may(judge(acl(), denied), Operation.READ)
    assert not may(judge(acl(operation=Operation.ALL), denied), Operation.READ)
    assert may(judge(acl(operation=Operation.ALL), denied), Operation.WRITE)
    assert not may(judge(acl(), acl("*", permission=Permission.DENY)), Operation.READ)
    assert not may(judge(acl(), acl(operation=Operation.ALL, permission=Permission.DENY)), Operation.READ)


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_who_may_use_a_topic_may_describe_it(operation: Operation) -> None:
    assert may(judge(acl(operation=operation)), Operation.DESCRIBE)
    assert not may(judge(acl(operation=operation)), Operation.DESCRIBE_CONFIGS)


def test_who_may_alter_configs_may_describe_them() -> None:
    assert may(judge(acl(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    assert not may(judge(acl(operation=Operation.ALTER_CONFIGS)), Operation.DESCRIBE)


def test_a_denial_implies_nothing() -> None:
    authorizer = judge(acl(operation=Operation.DESCRIBE), acl(permission=Permission.DENY))
    assert may(authorizer, Operation.DESCRIBE)
    assert not may(judge(acl(), acl(operation=Operation.DESCRIBE, permission=Permission.DENY)), Operation.DESCRIBE)


def test_a_prefix_and_the_wildcard_name_many_resources() -> None:
    prefixed = judge(acl("ab", pattern=PatternType.PREFIXED))
    assert may(prefixed, Operation.READ, "ab")
    assert may(prefixed, Operation.READ, "abc")
    assert not may(prefixed, Operation.READ, "a")
    assert may(judge(acl("*")), Operation.READ, "whatever")
    assert not may(judge(acl("*", pattern=PatternType.PREFIXED)), Operation.READ, "whatever")


def test_everyone_and_a_host() -> None:
    assert may(judge(acl(principal="User:*")), Operation.READ, who=BOB)
    authorizer = judge(acl(host="10.0.0.1"))
    assert may(authorizer, Operation.READ, host="10.0.0.1")
    assert not may(authorizer, Operation.READ, host="10.0.0.2")


def test_a_change_is_judged_by_at_once() -> None:
    authorizer = judge()
    assert not may(authorizer, Operation.READ)
    authorizer.add([acl()])
    assert may(authorizer, Operation.READ)
    authorizer.remove([acl()])
    assert not may(authorizer, Operation.READ)


def test_acls_survive_a_power_cut() -> None:
    disk = FaultyDisk()
    first = NodeLog.open(disk, ManualClock(), Path("/data"), {})
    authorizer = Authorizer(first.metadata, [], allows_unlisted=False)
    authorizer.add([acl(), acl("u")])
    authorizer.remove([acl("u")])
    disk.power_cut()
    after = NodeLog.open(disk, ManualClock(), Path("/data"), {})
    assert list(after.metadata.entries(ACLS)) == [tuple(acl())]
    assert Authorizer(after.metadata, [], allows_unlisted=False).acls() == [acl()]


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl(operation=Operation.WRITE)], True),
        ([acl(operation=Operation.ALL)], True),
        ([acl(operation=Operation.READ)], False),
        ([acl("*", Operation.WRITE), acl("*", Operation.WRITE, Permission.DENY)], False),
        ([acl("t", Operation.WRITE), acl("t", Operation.WRITE, Permission.DENY)], False),
        ([acl("t", Operation.WRITE), acl("u", Operation.WRITE, Permission.DENY)], True),
        ([acl("tt", Operation.WRITE), acl("t", Operation.WRITE, Permission.DENY, pattern=PatternType.PREFIXED)], False),
        ([acl("*", Operation.WRITE), acl("t", Operation.WRITE, Permission.DENY, pattern=PatternType.PREFIXED)], True),
        ([acl("t", Operation.WRITE, pattern=PatternType.PREFIXED), acl("t", Operation.WRITE, Permission.DENY)], True),
    ],
)
def test_whether_there_is_any_topic_that_one_may_write(acls: list[Acl], expected: bool) -> None:
    assert judge(*acls).allows_some(ALICE, "h", Operation.WRITE, TOPIC) is expected


@pytest.mark.parametrize(
    "wrong",
    [
        acl()._replace(resource_type=ResourceType.ANY),
        acl()._replace(resource_type=99),
        acl()._replace(pattern_type=PatternType.MATCH),
        acl()._replace(operation=Operation.ANY),
        acl()._replace(permission=Permission.ANY),
        acl()._replace(resource_name=""),
        acl()._replace(resource_type=ResourceType.CLUSTER, resource_name="other"),
        acl()._replace(principal="alice"),
        acl()._replace(host=""),
    ],
)
def test_an_acl_that_cannot_be_is_refused(wrong: Acl) -> None:
    with pytest.raises(RemoteError):
        judge(wrong)


HELD = [acl("t"), acl("*"), acl("te", pattern=PatternType.PREFIXED), acl("u", principal="User:bob")]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), HELD),
        (AclFilter(resource_type=ResourceType.GROUP), []),
        (AclFilter(resource_name="t"), [HELD[0]]),
        (AclFilter(pattern_type=PatternType.PREFIXED), [HELD[2]]),
        (AclFilter(resource_name="test", pattern_type=PatternType.MATCH), [HELD[1], HELD[2]]),
        (AclFilter(resource_name="t", pattern_type=PatternType.MATCH), [HELD[0], HELD[1]]),
        (AclFilter(principal="User:bob"), [HELD[3]]),
        (AclFilter(operation=Operation.WRITE), []),
    ],
)
def test_a_filter_means_the_acls_that_fit(wanted: AclFilter, found: list[Acl]) -> None:
    assert judge(*HELD).acls(wanted) == sorted(found)


class CountedName(str):
    """A name that counts how often a beginning of it is taken."""

    taken = 0

    def __getitem__(self, index: object) -> str:
        self.taken += 1
        return str(self)[index]  # type: ignore[index]


def test_a_long_name_is_looked_up_by_the_lengths_of_the_prefixes_alone() -> None:
    authorizer = judge(acl("te", pattern=PatternType.PREFIXED), acl("test", pattern=PatternType.PREFIXED))
    name = CountedName("x" * 32_767)
    assert not may(authorizer, Operation.READ, name)
    assert name.taken == 2


def test_a_prefix_that_is_removed_and_added_again_counts_once() -> None:
    prefix, other = acl("te", pattern=PatternType.PREFIXED), acl("te", Operation.WRITE, pattern=PatternType.PREFIXED)
    authorizer = judge(prefix, other)
    authorizer.add([prefix])
    authorizer.remove([prefix])
    assert not may(authorizer, Operation.READ, "test")
    assert may(authorizer, Operation.WRITE, "test")
    authorizer.remove([other])
    authorizer.add([prefix])
    assert may(authorizer, Operation.READ, "test")


def test_refused_names_take_no_memory_and_allowed_ones_a_bounded_amount() -> None:
    authorizer = judge(acl("a", pattern=PatternType.PREFIXED))
    tracemalloc.start()
    try:
        for number in range(3_000):
            assert not may(authorizer, Operation.READ, f"{number}" * 3_000)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        for number in range(3_000):
            assert may(authorizer, Operation.READ, f"a{number}" * 4_000)
        assert tracemalloc.get_traced_memory()[0] < 32_000_000
    finally:
        tracemalloc.stop()
