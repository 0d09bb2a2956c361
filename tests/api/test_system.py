"""The state of the portal as JSON, in the words of the page System."""

from datetime import timedelta

import pytest

from gpuaas import __version__
from gpuaas.core import clock
from gpuaas.core.models import Process, ProcessKind
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.api.caller import Caller
from tests.system.scene import full_swing

pytestmark = pytest.mark.django_db


def test_it_says_what_works_what_runs_and_what_waits(olga: User, olgas: Caller) -> None:
    full_swing(olga)
    gone = clock.now() - timedelta(minutes=5)
    Process.objects.create(
        kind="worker", host="b", pid=7, version="1", started_at=gone, seen_at=gone, skew_seconds=-0.5
    )
    found = olgas.get("/platform/system").json
    parts = {row["key"]: row for row in found["parts"]}
    assert parts["processes"]["works"] is True
    assert parts["processes"]["remedy"] == ""
    killed = next(row for row in found["processes"] if row["host"] == "b")
    assert (killed["kind"], killed["pid"], killed["alive"], killed["skew_seconds"]) == (
        "worker",
        7,
        False,
        -0.5,
    )
    assert sum(row["alive"] for row in found["processes"]) == len(ProcessKind)
    workspace = Workspace.objects.select_related("site").order_by("pk")[0]
    site = next(row for row in found["sites"] if row["site"] == workspace.site.slug)
    assert (site["operations_open"], site["succeeded"], site["failed"]) >= (1, 1, 1)
    assert (site["drift"], site["unsold"], site["late"], site["slow"]) == (2, 1, False, False)
    assert site["heard_at"]
    assert {"kind", "due", "oldest_due_at", "claimed"} == set(found["work"][0])
    assert found["backup"] is None
    assert {"name": "gpuaas", "version": __version__} in found["versions"]
    assert "Apache-2.0" in {row["license"] for row in found["installed"]}
