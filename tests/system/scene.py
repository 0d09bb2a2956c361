"""A portal in full swing, so that every gauge has samples."""

from datetime import timedelta

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.models import Process, ProcessKind
from gpuaas.metering.models import SiteMeter, UsageInterval
from gpuaas.workspaces.models import Operation, Workspace
from tenants.models import User
from tests.frontend.operator.stage import stage
from tests.frontend.operator.trouble import drift_of

TOKEN = "token-for-prometheus-alone"


def full_swing(olga: User) -> None:
    stage(olga)
    now = clock.now()
    for kind in ProcessKind:
        Process.objects.create(
            kind=kind,
            host="a",
            pid=1,
            version="1",
            started_at=now,
            seen_at=now + timedelta(hours=1),
            skew_seconds=0,
        )
    workspace = Workspace.objects.select_related("site").order_by("pk")[0]
    drift_of(workspace)
    Site.objects.filter(pk=workspace.site_id).update(reached_at=now)
    SiteMeter.objects.update_or_create(site=workspace.site, defaults={"last_proof_at": now})
    usage = UsageInterval.objects.filter(site=workspace.site)[0]
    UsageInterval.objects.filter(pk=usage.pk).update(flavor=None, ended_at=None)
    for ended, succeeded in ((None, None), (now, True), (now, False)):
        Operation.objects.create(
            workspace=workspace,
            kind="resize",
            requested_by="alice",
            requested_at=now,
            finished_at=ended,
            succeeded=succeeded,
        )
