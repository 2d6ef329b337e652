"""Users and ACLs by the Kafka protocol; functions over a ``WireClient``, whose contract they have.

A password leaves this process salted and hashed, never as it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import MainstemError, UnknownUserError, UnsupportedFeatureError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from mainstem.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mainstem.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest
from mainstem.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResource
from mainstem.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from mainstem.protocol.scram import ITERATIONS, SHA_256, SHA_512, as_salt, salted_password

_NUMBER_OF: Final = {SHA_256: 1, SHA_512: 2}
_NAME_OF: Final = {number: name for name, number in _NUMBER_OF.items()}


def users(client: WireClient) -> dict[str, dict[str, int]]:
    """The users by name, each with its mechanisms and their iterations. Raises AuthorizationError."""
    answer = client.request(DescribeUserScramCredentialsRequest(users=None))
    if answer.error_code:
        raise _error(answer.error_code, "the users cannot be listed", answer.error_message)
    return {
        result.user: {_NAME_OF[info.mechanism]: info.iterations for info in result.credential_infos}
        for result in sorted(answer.results, key=lambda result: str(result.user))
    }


def put_user(client: WireClient, name: str, password: str, mechanisms: Iterable[str]) -> None:
    """Add a user, or give it a new password, for these mechanisms. Raises AuthorizationError, RemoteError."""
    upsertions = []
    for mechanism in mechanisms:
        salt = as_salt(secrets.token_bytes(32))
        upsertions.append(
            ScramCredentialUpsertion(
                name=name,
                mechanism=_NUMBER_OF[mechanism],
                iterations=ITERATIONS,
                salt=salt,
                salted_password=salted_password(mechanism, password, salt, ITERATIONS),
            )
        )
    _alter(client, f"user {name!r} cannot be added", [], upsertions)


def remove_user(client: WireClient, name: str) -> None:
    """Remove a user with all its credentials. Raises UnknownUserError, AuthorizationError."""
    held = users(client).get(name, {})
    if not held:
        raise UnknownUserError(f"user {name!r} does not exist; mainstem users list shows all")
    deletions = [ScramCredentialDeletion(name=name, mechanism=_NUMBER_OF[each]) for each in held]
    _alter(client, f"user {name!r} cannot be removed", deletions, [])


def _alter(
    client: WireClient,
    context: str,
    deletions: Sequence[ScramCredentialDeletion],
    upsertions: Sequence[ScramCredentialUpsertion],
) -> None:
    """Change the credentials of one user: all at once, or one by one on Apache Kafka, which takes one in a request."""
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    for result in client.request(request).results:
        if result.error_code == ErrorCode.DUPLICATE_RESOURCE and len(deletions) + len(upsertions) > 1:
            for deletion in deletions:
                _alter(client, context, [deletion], [])
            for upsertion in upsertions:
                _alter(client, context, [], [upsertion])
            return
        if result.error_code:
            raise _error(result.error_code, context, result.error_message)


def acls(client: WireClient, wanted: DescribeAclsRequest) -> Sequence[DescribeAclsResource]:
    """The ACLs that a filter means. Raises AuthorizationError, UnsupportedFeatureError where it has no authorizer."""
    answer = client.request(wanted)
    if answer.error_code:
        raise _error(answer.error_code, "the ACLs cannot be listed", answer.error_message)
    found: Sequence[DescribeAclsResource] = answer.resources
    return found


def add_acls(client: WireClient, creations: Sequence[AclCreation]) -> None:
    """Add ACLs. Raises AuthorizationError, RemoteError; some may then have been added."""
    for result in client.request(CreateAclsRequest(creations=creations)).results:
        if result.error_code:
            raise _error(result.error_code, "the ACL cannot be added", result.error_message)


def remove_acls(client: WireClient, wanted: Sequence[DeleteAclsFilter]) -> list[DeleteAclsMatchingAcl]:
    """Remove the ACLs that filters mean; which they were. Raises AuthorizationError, RemoteError."""
    removed: list[DeleteAclsMatchingAcl] = []
    for result in client.request(DeleteAclsRequest(filters=wanted)).filter_results:
        if result.error_code:
            raise _error(result.error_code, "the ACLs cannot be removed", result.error_message)
        removed += result.matching_acls
    return removed


def _error(code: int, context: str, message: str | None) -> MainstemError:
    if code == ErrorCode.SECURITY_DISABLED:
        return UnsupportedFeatureError(f"{context}: {message or 'this log has no authorizer'}")
    return error_of(code, context, message)
