"""The cost of a change to a workspace, before it is requested."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from billing.held import what_if
from billing.quotes import QuoteItem
from gpuaas.api.schema import operation
from gpuaas.api.v1.workspaces.shapes import QuoteInput, WhatIfOutput
from gpuaas.api.v1.workspaces.views import WorkspaceView, classes, pairs
from gpuaas.core import clock
from gpuaas.lifecycle.lease import lease_validate
from gpuaas.workspaces.services.validation import held_by, items_resolve, storage_resolve, storage_validate
from tenants.roles import Permission


class WorkspaceQuoteView(WorkspaceView):
    @operation("workspace_quote", "Quote a change", body=QuoteInput, answer=WhatIfOutput)
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Takes the body of a change and returns its price without making it: now, then, and the difference per hour,
        for the current month and to the end of the lease. Safe to repeat, so it takes no Idempotency-Key."""
        found = self.held()
        self.project(Permission.BILLING_VIEW)
        asked = self.input(QuoteInput)
        storage = storage_validate(asked.get("storage_gib", found.storage_gib))
        items, held = None, held_by(found)
        by_class = None
        if "storage_classes" in asked:
            resolved = storage_resolve(classes(asked), site=found.site, held=held)
            by_class = {storage_class.slug: gib for storage_class, gib in resolved}
        if "items" in asked:
            wanted = pairs(asked["items"], "flavor", "count")
            items = [
                QuoteItem(flavor, count)
                for flavor, count in items_resolve(wanted, held=held, storage_gib=storage)
            ]
        ends_at = asked.get("lease_ends_at")
        if ends_at is not None:
            ends_at = lease_validate(ends_at, now=clock.now())
        return Response(
            WhatIfOutput(
                what_if(
                    workspace=found, items=items, storage_gib=storage, classes=by_class, lease_ends_at=ends_at
                )
            ).data
        )
