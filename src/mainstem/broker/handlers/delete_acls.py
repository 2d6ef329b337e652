"""DeleteAcls (31), versions 1–3: removes the ACLs that match filters, and returns them; durable when answered.

Each filter fails alone. Without an authorizer: SECURITY_DISABLED for each. Many ACLs are removed in pieces.
"""

from __future__ import annotations

import asyncio

from mainstem.broker.access import admin_guards
from mainstem.broker.access.acls import Acl, AclFilter
from mainstem.broker.access.authorizer import required
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices, in_pieces
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import delete_acls as messages


async def handle(node: Node, call: Call) -> messages.DeleteAclsResponse:
    body: messages.DeleteAclsRequest = call.body
    return messages.DeleteAclsResponse(filter_results=[await _delete(node, wanted) for wanted in body.filters])


async def _delete(node: Node, asked: messages.DeleteAclsFilter) -> messages.DeleteAclsFilterResult:
    try:
        authorizer = required(node.authorizer)
        found = await authorizer.find(AclFilter.of_request(asked).checked())
        gone: list[messages.DeleteAclsMatchingAcl] = []
        for piece in in_pieces(found):
            gone += map(_deleted, authorizer.remove(piece))
            await asyncio.sleep(0)
    except MainstemError as error:
        return messages.DeleteAclsFilterResult(error_code=error_code(error), error_message=str(error), matching_acls=[])
    return messages.DeleteAclsFilterResult(error_code=ErrorCode.NONE, error_message=None, matching_acls=gone)


def _deleted(acl: Acl) -> messages.DeleteAclsMatchingAcl:
    return messages.DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


API = Api(
    messages.DeleteAclsRequest,
    handle,
    admin_guards.on_acls("filters", "filter_results"),
    changes_state=True,
    slices=Slices("filters", "filter_results"),
)
