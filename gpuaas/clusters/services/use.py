"""What people's jobs used on a Slurm cluster, as its head reports it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from gpuaas.clusters.models import Cluster, ClusterLogin, ClusterUse
from gpuaas.core import clock

APART = timedelta(days=1)  # the most by which two time zones differ


@dataclass(frozen=True)
class Used:
    """GPU-seconds of a login on a day, so far."""

    day: date
    login: str
    gpu_seconds: int


def use_record(cluster: Cluster, reported: Sequence[Used]) -> None:
    """The latest report of a day counts; what it leaves out stays. Users without a login and days on which the cluster
    was not there are ignored."""
    first, last = cluster.created_at.date() - APART, clock.now().date() + APART
    names = {one.login for one in reported}
    rows = ClusterLogin.objects.filter(project=cluster.project_id, name__in=names)
    logins = dict(rows.values_list("name", "pk"))
    wanted = {
        (one.day, logins[one.login]): one.gpu_seconds
        for one in reported
        if one.login in logins and first <= one.day <= last
    }
    if not wanted:
        return
    known = ClusterUse.objects.filter(cluster=cluster, day__gte=min(day for day, _ in wanted))
    there = {(day, login): used for day, login, used in known.values_list("day", "login", "gpu_seconds")}
    changed = [
        ClusterUse(cluster=cluster, day=day, login_id=login, gpu_seconds=used)
        for (day, login), used in wanted.items()
        if there.get((day, login)) != used
    ]
    ClusterUse.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["cluster", "day", "login"],
        update_fields=["gpu_seconds"],
    )
