"""What a change of a workspace would cost, before it is asked for."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from billing.quotes import QuoteItem, what_if
from gpuaas.api.schema import operation
from gpuaas.api.v1.workspace_shapes import QuoteInput, WhatIfOutput
from gpuaas.api.v1.workspaces import TAG, WorkspaceView, pairs
from gpuaas.core import clock
from gpuaas.core.terms import lease_validate
from gpuaas.workspaces.services.validation import held_by, items_resolve, storage_validate
from tenants.roles import Permission


class WorkspaceQuoteView(WorkspaceView):
    @operation(
        "workspace_quote",
        "What would a change cost",
        tag=TAG,
        body=QuoteInput,
        answer=WhatIfOutput,
    )
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """The body of a change, priced and not made: now, then, and the difference per hour, for the running month and to
        the end of the lease. Safe to repeat, so it takes no Idempotency-Key.
        """
        del request, project, workspace
        found = self.workspace()
        self.project(Permission.BILLING_VIEW)
        asked = self.input(QuoteInput)
        storage = storage_validate(asked.get("storage_gib", found.storage_gib))
        items = None
        if "items" in asked:
            wanted = pairs(asked["items"], "flavor", "count")
            items = [
                QuoteItem(flavor, count)
                for flavor, count in items_resolve(wanted, held=held_by(found), storage_gib=storage)
            ]
        ends_at = asked.get("lease_ends_at")
        if ends_at is not None:
            ends_at = lease_validate(ends_at, now=clock.now())
        return Response(
            WhatIfOutput(
                what_if(workspace=found, items=items, storage_gib=storage, lease_ends_at=ends_at)
            ).data
        )
