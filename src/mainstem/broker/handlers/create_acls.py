"""CreateAcls (30), versions 1–3: adds ACLs; durable when answered, each fails alone.

Adding an existing ACL again succeeds. A long request is written in pieces of some hundred ACLs. Without an
authorizer: SECURITY_DISABLED for each.
"""

from __future__ import annotations

import asyncio

from mainstem.broker.access import admin_guards
from mainstem.broker.access.acls import Acl
from mainstem.broker.access.authorizer import required
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, reported_in
from mainstem.broker.node import Node
from mainstem.broker.slices import in_pieces, in_turns
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import create_acls as messages


async def handle(node: Node, call: Call) -> messages.CreateAclsResponse:
    body: messages.CreateAclsRequest = call.body
    results = [messages.AclCreationResult(error_code=ErrorCode.NONE, error_message=None) for _ in body.creations]
    checked = []
    async for creation, result in in_turns(zip(body.creations, results, strict=True)):
        with reported_in(result):
            required(node.authorizer)
            checked.append((_acl(creation).checked(), result))
    for piece in in_pieces(checked):
        try:
            required(node.authorizer).add(acl for acl, _ in piece)
        except MainstemError as error:
            for _, result in piece:
                result.error_code, result.error_message = error_code(error), str(error)
        await asyncio.sleep(0)
    return messages.CreateAclsResponse(results=results)


def _acl(creation: messages.AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


API = Api(messages.CreateAclsRequest, handle, admin_guards.on_acls("creations", "results"), changes_state=True)
