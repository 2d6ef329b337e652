"""AlterUserScramCredentials (51), version 0: adds, replaces and removes users' credentials; durable when answered.

Passwords arrive salted and hashed, never in plain text. One invalid change of a user refuses all changes of that user.
"""

from __future__ import annotations

from collections import Counter

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.handlers.describe_user_scram_credentials import NUMBER_OF
from mainstem.broker.node import Node
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from mainstem.protocol.scram import ScramCredential, credential_of


def handle(node: Node, call: Call) -> AlterUserScramCredentialsResponse:
    body: AlterUserScramCredentialsRequest = call.body
    asked: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*body.deletions, *body.upsertions]
    counts = Counter((each.name, each.mechanism) for each in asked)
    results = {
        each.name: AlterUserScramCredentialsResult(user=each.name, error_code=ErrorCode.NONE, error_message=None)
        for each in asked
    }
    changes: dict[tuple[str, str], ScramCredential | None] = {}
    for each in asked:
        try:
            if counts[each.name, each.mechanism] > 1:
                raise refusal(ErrorCode.DUPLICATE_RESOURCE, "a credential is named twice in the request")
            mechanism = next((name for name, number in NUMBER_OF.items() if number == each.mechanism), "")
            credential = _credential(each, mechanism)
            node.security.credentials.check(each.name, mechanism, credential)
            changes[each.name, mechanism] = credential
        except MainstemError as error:
            results[each.name].error_code, results[each.name].error_message = error_code(error), str(error)
    kept = {key: value for key, value in changes.items() if not results[key[0]].error_code}
    try:
        node.security.credentials.change(kept)
    except MainstemError as error:
        for name, _ in kept:
            results[name].error_code, results[name].error_message = error_code(error), str(error)
    return AlterUserScramCredentialsResponse(results=list(results.values()))


def _credential(asked: ScramCredentialDeletion | ScramCredentialUpsertion, mechanism: str) -> ScramCredential | None:
    """Return the credential to set; None for a deletion. Raises RemoteError for a bad mechanism or salt."""
    if isinstance(asked, ScramCredentialDeletion):
        return None
    if not mechanism:
        raise refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    salt, salted = bytes(asked.salt), bytes(asked.salted_password)
    if not salt or not salted:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a credential needs a salt and a salted password")
    return credential_of(mechanism, salted, salt, asked.iterations)


API = Api(AlterUserScramCredentialsRequest, handle, admin_guards.alter_user_scram_credentials, changes_state=True)
