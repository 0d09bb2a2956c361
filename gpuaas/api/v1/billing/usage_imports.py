"""Operators: usage that was metered elsewhere, in batches."""

import uuid
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.files import files_import, import_take_back, usage_file
from gpuaas.api.fields import Input, Month, Output, Pick, Switch, Text, TextOrEmpty
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.views import PlatformView
from gpuaas.core.rows import first_of
from gpuaas.metering.imports import LONGEST_NAME, Imported, Overlap
from gpuaas.metering.models import UsageImport
from gpuaas.metering.selectors import import_sums_of, imports_for

LONGEST_FILE = 60_000


class UsageImportInput(Input):
    usage = Text(
        max_length=LONGEST_FILE,
        trim_whitespace=False,
        help_text="The text of usage.csv. Upload longer files on the page, or use gpuaas-portal usage_import.",
    )
    name = TextOrEmpty(max_length=LONGEST_NAME, help_text="Of the import; empty for that of the file.")
    overlaps = serializers.ListField(
        child=Pick(choices=[kind.value for kind in Overlap]),
        required=False,
        max_length=len(Overlap),
        help_text="Imports rows although the same workspace, meter and GPUs are counted at the same time by another row of "
        "the file, by other imports (imports), or by the portal itself (metered).",
    )
    reopen = Switch(
        default=False, help_text="Imports usage of months that are long closed or before all others."
    )


class UsageImportOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    file = serializers.CharField()
    imported_at = serializers.DateTimeField()
    imported_by = serializers.CharField()
    rows = serializers.IntegerField(help_text="Rows that were read.")
    intervals = serializers.IntegerField(help_text="Those of them that were new and not empty.")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    taken_back_at = serializers.DateTimeField(allow_null=True)
    taken_back_by = serializers.CharField(allow_blank=True)


class UsageImportSumOutput(Output):
    month = Month()
    project = serializers.CharField(source="project.slug")
    meter = serializers.CharField()
    intervals = serializers.IntegerField()
    unit_seconds = serializers.IntegerField(help_text="What the import brings.")
    besides_unit_seconds = serializers.IntegerField(help_text="What else was there when it was imported.")


class ImportedOutput(Output):
    rows = serializers.IntegerField(help_text="Rows that were read.")
    written = serializers.IntegerField(help_text="Those that are new and not empty.")
    batch = UsageImportOutput(allow_null=True, help_text="Null without new rows.")
    sums = UsageImportSumOutput(many=True)


class TakingView(PlatformView):
    """Views that take a file in, or would."""

    def imported(self, *, check: bool) -> Imported:
        asked: dict[str, Any] = self.input(UsageImportInput)
        with usage_file([asked.pop("usage").encode()]) as usage:
            overlaps = [Overlap(kind) for kind in asked.pop("overlaps", ())]
            return files_import(actor=self.actor, usage=usage, overlaps=overlaps, check=check, **asked)


class UsageImportsView(TakingView):
    @operation("platform_usage_imports", "List imports of usage", rows=UsageImportOutput)
    def get(self, request: Request) -> Response:
        """Lists all imports, also those that were taken back, newest first."""
        return self.page(imports_for(actor=self.actor), UsageImportOutput, key="-pk")

    @operation("platform_usage_import", "Import usage", body=UsageImportInput, created=ImportedOutput)
    @idempotent
    def post(self, request: Request) -> Response:
        """Imports all rows or none. A row is identified by its `id`: rows that are known stay as they are. Every row that
        is refused is named at `usage`."""
        return Response(ImportedOutput(self.imported(check=False)).data, status=201)


class UsageImportPreviewView(TakingView):
    @operation(
        "platform_usage_import_preview", "Preview an import", body=UsageImportInput, answer=ImportedOutput
    )
    def post(self, request: Request) -> Response:
        """Answers as the import would, and writes nothing: the `batch` does not exist."""
        return Response(ImportedOutput(self.imported(check=True)).data)


class BatchView(PlatformView):
    """Views of one import."""

    def batch(self) -> UsageImport:
        rows = imports_for(actor=self.actor).filter(pk=self.kwargs["usage_import"])
        return first_of(rows, "import of usage")


class UsageImportView(BatchView):
    @operation("platform_usage_import_get", "Get an import of usage", answer=UsageImportOutput)
    def get(self, request: Request, usage_import: uuid.UUID) -> Response:
        """Returns the import; its usage by month, project and meter is at `sums`."""
        return Response(UsageImportOutput(self.batch()).data)


class UsageImportSumsView(BatchView):
    @operation("platform_usage_import_sums", "List sums of an import", rows=UsageImportSumOutput)
    def get(self, request: Request, usage_import: uuid.UUID) -> Response:
        """Lists what the import brought by month, project and meter, in unit-seconds, and what else was there."""
        rows = import_sums_of(actor=self.actor, batch=self.batch())
        return self.page(rows, UsageImportSumOutput, key="pk")


class UsageImportTakeBackView(BatchView):
    @operation("platform_usage_import_take_back", "Take an import back", answer=UsageImportOutput)
    @idempotent
    def post(self, request: Request, usage_import: uuid.UUID) -> Response:
        """Deletes all usage of the import. 409 with the numbers of invoices that charge it. Repeating it changes nothing."""
        row = import_take_back(actor=self.actor, batch=self.batch(), online=True)
        return Response(UsageImportOutput(row).data)
