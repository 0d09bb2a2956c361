"""The audit log of a project."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Output, PageQuery, Text
from gpuaas.api.schema import operation
from gpuaas.api.views import ProjectView
from tenants.roles import Permission
from tenants.selectors import audit_for


class AuditQuery(PageQuery):
    action = Text(required=False, max_length=64, help_text="For example workspace.request.")
    actor = Text(required=False, max_length=150, help_text="A username.")


class AuditEntryOutput(Output):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    token_prefix = serializers.CharField(allow_blank=True)
    action = serializers.CharField()
    target_kind = serializers.CharField()
    target_id = serializers.CharField()
    target_name = serializers.CharField()
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)
    request_id = serializers.CharField(allow_blank=True)
    ip = serializers.CharField(allow_null=True)


class ProjectAuditView(ProjectView):
    @operation("audit_list", "List the audit log", rows=AuditEntryOutput, query=AuditQuery)
    def get(self, request: Request, project: str) -> Response:
        """Lists every recorded action in the project, newest first. Entries are never changed or removed."""
        found = self.project(Permission.AUDIT_VIEW)
        rows = audit_for(actor=self.actor, project_id=found.pk)
        for name in ("action", "actor"):
            if name in self.params:
                rows = rows.filter(**{name: self.params[name]})
        return self.page(rows, AuditEntryOutput, key="-id")
