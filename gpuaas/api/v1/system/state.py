"""Operators: whether the portal itself works, as the page System says it."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Output
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView
from gpuaas.core import clock
from gpuaas.core.models import Process, ProcessKind
from gpuaas.system.selectors import system_get
from gpuaas.system.versions import installed


class PartOutput(Output):
    key = serializers.CharField(help_text="Stable; `title` is for people.")
    title = serializers.CharField()
    works = serializers.BooleanField()
    message = serializers.CharField()
    remedy = serializers.CharField(allow_blank=True, help_text="What to do; empty while the part works.")


class ProcessOutput(Output):
    kind = serializers.ChoiceField(choices=ProcessKind.choices)
    host = serializers.CharField()
    pid = serializers.IntegerField()
    version = serializers.CharField()
    started_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField()
    alive = serializers.SerializerMethodField(
        help_text="false: it was killed or cut off, and is forgotten an hour later."
    )
    skew_seconds = serializers.FloatField(
        allow_null=True, help_text="How far its clock is ahead of the database's; negative: behind."
    )

    def get_alive(self, row: Process) -> bool:
        return row.is_alive(self.context["now"])


class WorkOutput(Output):
    kind = serializers.CharField(help_text="What the rows are, such as `workspace`.")
    due = serializers.IntegerField(help_text="Rows that wait for a worker.")
    oldest_due_at = serializers.DateTimeField(
        source="oldest", allow_null=True, help_text="Since when the first of them waits."
    )
    claimed = serializers.IntegerField(help_text="Rows in a worker's hands.")


class SiteStateOutput(Output):
    site = serializers.CharField(source="site.slug")
    reachable = serializers.BooleanField(help_text="Whether it answered its last probe.")
    slow = serializers.BooleanField(
        help_text="Whether a call took five seconds or more within five minutes; its work then waits for workers of its own."
    )
    heard_at = serializers.DateTimeField(
        allow_null=True, help_text="When its meter last heard from it; null: never."
    )
    late = serializers.BooleanField(help_text="true: that is too long ago.")
    operations_open = serializers.IntegerField(source="visited.open")
    oldest_open_at = serializers.DateTimeField(
        source="visited.oldest", allow_null=True, help_text="When the oldest open operation was requested."
    )
    succeeded = serializers.IntegerField(
        source="visited.succeeded", help_text="Operations that ended well within the last hour."
    )
    failed = serializers.IntegerField(
        source="visited.failed", help_text="Operations that failed within the last hour."
    )
    drift = serializers.IntegerField(help_text="Workspaces that differ from what they should be.")
    unsold = serializers.IntegerField(help_text="Running consumers of GPUs that no flavor sells.")


class BackupOutput(Output):
    name = serializers.CharField()
    taken_at = serializers.DateTimeField(help_text="The moment whose state it holds.")
    finished_at = serializers.DateTimeField()
    size_bytes = serializers.IntegerField()
    with_keys = serializers.BooleanField(help_text="Whether the encryption keys are in it, sealed.")


class VersionOutput(Output):
    name = serializers.CharField()
    version = serializers.CharField(allow_blank=True, help_text="Empty: it did not report one.")


class InstalledOutput(Output):
    name = serializers.CharField()
    version = serializers.CharField()
    license = serializers.CharField(help_text="As the distribution declares it.")


class SystemOutput(Output):
    parts = PartOutput(many=True)
    processes = ProcessOutput(many=True)
    work = WorkOutput(many=True)
    sites = SiteStateOutput(many=True)
    backup = BackupOutput(allow_null=True, help_text="The newest one; null: none was ever made.")
    versions = VersionOutput(many=True)
    installed = InstalledOutput(many=True)


class PlatformSystemView(ApiView):
    @operation("platform_system", "Get the state of the portal", answer=SystemOutput)
    def get(self, request: Request) -> Response:
        """Returns what the page System shows: which part of the portal works, its processes, background work that waits, how
        each site is heard, the newest backup, and the versions and licenses of what is installed. It asks no site."""
        now = clock.now()
        found = system_get(actor=self.actor, now=now)
        answer = {**vars(found), "installed": installed()}
        return Response(SystemOutput(answer, context={"now": now}).data)
