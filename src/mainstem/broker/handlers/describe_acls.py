"""DescribeAcls (29), versions 1–3: the ACLs that match a filter. Without an authorizer: SECURITY_DISABLED."""

from __future__ import annotations

from itertools import groupby

from mainstem.broker.access.acls import Acl, AclFilter, Operation
from mainstem.broker.access.authorizer import required
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code
from mainstem.broker.node import Node
from mainstem.broker.slices import in_turns
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_acls as messages


async def handle(node: Node, call: Call) -> messages.DescribeAclsResponse:
    body: messages.DescribeAclsRequest = call.body
    try:
        found = await required(node.authorizer).find(AclFilter.of_request(body).checked())
    except MainstemError as error:
        return messages.DescribeAclsResponse(error_code=error_code(error), error_message=str(error), resources=[])
    grouped = groupby(found, key=lambda acl: acl[:3])
    return messages.DescribeAclsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        resources=[
            messages.DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=[_described(acl) for acl in acls],
            )
            async for (resource_type, name, pattern_type), acls in in_turns(grouped)
        ],
    )


def _described(acl: Acl) -> messages.AclDescription:
    return messages.AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )


API = Api(messages.DescribeAclsRequest, handle, on_cluster(Operation.DESCRIBE), has_long_answer=True)
