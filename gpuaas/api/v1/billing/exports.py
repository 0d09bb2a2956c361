"""Charges of a month as FOCUS 1.2 for cost management tools: streamed CSV or Parquet."""

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from billing.focus import charges_of, focus_csv, focus_parquet, focus_rows
from billing.months import month_parse
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.views import CsvRenderer
from gpuaas.api.views import ApiView
from gpuaas.core.streams import streamed
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import organization_get_for

CSV = "text/csv; charset=utf-8"
PARQUET = "application/vnd.apache.parquet"


class ParquetRenderer(BaseRenderer):
    """Only for content negotiation: the view writes its answer itself, and errors stay JSON."""

    media_type = PARQUET
    format = "parquet"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return JSONRenderer().render(data)


class FocusView(ApiView):
    """Charges of one organization, or of all for operators. Permissions are checked before the first byte."""

    def sent(
        self,
        request: Request,
        month: str,
        slug: str | None,
        write: Callable[[Iterator[Any]], Iterator[bytes]],
    ) -> StreamingHttpResponse:
        organization = self._organization(slug)
        first: date = month_parse(month)
        parquet = write is focus_parquet
        charges = charges_of(actor=self.actor, month=first, organization=organization)
        return streamed(
            request._request,
            write(focus_rows(charges)),
            content_type=PARQUET if parquet else CSV,
            name=f"focus-{slug or 'all'}-{month}.{'parquet' if parquet else 'csv'}",
        )

    def _organization(self, slug: str | None) -> Organization | None:
        if slug is None:
            return None
        return organization_get_for(actor=self.actor, slug=slug, permission=Permission.BILLING_VIEW)


class OrganizationFocusCsvView(FocusView):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("organization_focus_csv", "Export the charges of an organization as FOCUS 1.2 CSV", file="csv")
    def get(self, request: Request, organization: str, month: str) -> StreamingHttpResponse:
        """BilledCost adds up to the documents of the month, to the cent. The current month is rated up to now."""
        return self.sent(request, month, organization, focus_csv)


class OrganizationFocusParquetView(FocusView):
    renderer_classes = [ParquetRenderer, JSONRenderer]

    @operation(
        "organization_focus_parquet",
        "Export the charges of an organization as FOCUS 1.2 Parquet",
        file="parquet",
    )
    def get(self, request: Request, organization: str, month: str) -> StreamingHttpResponse:
        """Returns the same rows with numbers as decimal128."""
        return self.sent(request, month, organization, focus_parquet)


class PlatformFocusCsvView(FocusView):
    renderer_classes = [CsvRenderer, JSONRenderer]

    @operation("platform_focus_csv", "Export the charges of all organizations as FOCUS 1.2 CSV", file="csv")
    def get(self, request: Request, month: str) -> StreamingHttpResponse:
        """For operators and auditors."""
        return self.sent(request, month, None, focus_csv)


class PlatformFocusParquetView(FocusView):
    renderer_classes = [ParquetRenderer, JSONRenderer]

    @operation(
        "platform_focus_parquet",
        "Export the charges of all organizations as FOCUS 1.2 Parquet",
        file="parquet",
    )
    def get(self, request: Request, month: str) -> StreamingHttpResponse:
        """For operators and auditors."""
        return self.sent(request, month, None, focus_parquet)
