"""DescribeUserScramCredentials (50), version 0: which mechanisms users have, and with how many iterations.

Without names: all users. The answer holds nothing from which a password could be guessed.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_user_scram_credentials as messages
from mainstem.protocol.scram import SHA_256, SHA_512

NUMBER_OF: Final = {SHA_256: 1, SHA_512: 2}
"""Kafka's numbers of the mechanisms."""


def handle(node: Node, call: Call) -> messages.DescribeUserScramCredentialsResponse:
    body: messages.DescribeUserScramCredentialsRequest = call.body
    counts = Counter(user.name for user in body.users or ())
    return messages.DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[_describe(node, name, counts[name]) for name in (counts or node.security.credentials.users())],
    )


def _describe(node: Node, name: str, count: int) -> messages.DescribeUserScramCredentialsResult:
    held = node.security.credentials.of(name)
    result = messages.DescribeUserScramCredentialsResult(
        user=name, error_code=ErrorCode.NONE, error_message=None, credential_infos=[]
    )
    if count > 1:
        result.error_code, result.error_message = (
            ErrorCode.DUPLICATE_RESOURCE,
            f"{name!r} is named twice in the request",
        )
    elif not held:
        result.error_code, result.error_message = ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {name!r}"
    else:
        result.credential_infos = [
            messages.CredentialInfo(mechanism=NUMBER_OF[mechanism], iterations=credential.iterations)
            for mechanism, credential in sorted(held.items())
        ]
    return result


API = Api(messages.DescribeUserScramCredentialsRequest, handle, on_cluster(Operation.DESCRIBE))
