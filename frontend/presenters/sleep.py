"""The texts of suspending and resuming: what stops, what stays, what has to be free again."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.conf import settings

from frontend import formats
from frontend.components import Notice
from frontend.place import ProjectPlace
from frontend.presenters.pods import PodRow
from frontend.presenters.words import words_of
from frontend.presenters.workspaces import holds_of
from gpuaas.clusters.models import Cluster
from gpuaas.core.looks import Tone
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState

ENDED = frozenset({"Done", "Failed", "Refused"})


@dataclass(frozen=True)
class Sleep:
    """The texts of both dialogs, and the notice of a suspended workspace."""

    stops: tuple[str, ...]
    stays: tuple[str, ...]
    wakes: tuple[str, ...]
    notice: Notice | None


def sleep_of(workspace: Workspace, pods: Sequence[PodRow], here: ProjectPlace) -> Sleep:
    return Sleep(
        stops=_stops(workspace, pods),
        stays=_stays(workspace),
        wakes=_wakes(workspace),
        notice=_notice(workspace, here),
    )


def after_lease(row: Workspace | Cluster | None = None, zone: ZoneInfo | None = None) -> str:
    """What happens when nobody extends the lease; with a date once that is set."""
    if row is not None and zone is not None and row.deleted_after is not None:
        return f"It is deleted on {formats.when(row.deleted_after, zone)} unless the lease is extended."
    days = settings.LEASE_GRACE_DAYS
    if not days:
        return "When the lease ends, everything is suspended and then deleted."
    return f"When the lease ends, everything is suspended; {days} day{'' if days == 1 else 's'} later it is deleted."


def _gpus(workspace: Workspace) -> str:
    parts = [f"{item.count} × {item.flavor.name}" for item in workspace.flavors.all() if item.count]
    return ", ".join(parts) or "no GPUs"


def _stops(workspace: Workspace, pods: Sequence[PodRow]) -> tuple[str, ...]:
    released = f"Its GPUs are released for others: {_gpus(workspace)}."
    if words_of(workspace.site).machines:
        return ("Machines are shelved: they stop, and their disks are kept.", released)
    running = [pod for pod in pods if pod.word not in ENDED]
    bare = [pod.name for pod in running if not pod.owner]
    count = (
        f"All {len(running)} running and waiting pods end"
        if len(running) > 1
        else "Everything that runs ends"
    )
    lines = [f"{count}. Deployments and other controllers are scaled to zero and restored on resume."]
    if bare:
        named = ", ".join(bare[:3]) + (f" and {len(bare) - 3} more" if len(bare) > 3 else "")
        lines.append(f"Pods without a controller are not restored: {named}.")
    else:
        lines.append("Pods without a controller are not restored.")
    return (*lines, released)


def _stays(workspace: Workspace) -> tuple[str, ...]:
    consumer = words_of(workspace.site).consumer
    gib = workspace.storage_gib + sum(row.gib for row in workspace.storage.all())
    data = f"Volumes, up to {gib:,} GiB" if gib else "Volumes"
    return (
        f"{data}, at their current price. GPUs, vCPU and memory are not charged once the last {consumer} is gone.",
        "Members, credentials, secrets and configuration. The lease keeps running.",
    )


def _wakes(workspace: Workspace) -> tuple[str, ...]:
    needed = f"Resuming needs {_gpus(workspace)}, within the limits and free at {workspace.site.slug}."
    back = "shelved" if words_of(workspace.site).machines else "scaled to zero"
    return (
        f"{needed} If they are not available, the workspace stays suspended and shows what is missing.",
        f"Everything that was {back} is restored. Charges start again when the site confirms it.",
    )


def _notice(workspace: Workspace, here: ProjectPlace) -> Notice | None:
    if workspace.state != WorkspaceState.SUSPENDED:
        return None
    since = f" since {formats.when(workspace.suspended_at, here.zone)}" if workspace.suspended_at else ""
    text = f"Nothing runs and nothing can be started. Data and access are kept. Size: {holds_of(workspace)}."
    return Notice(Tone.OFF, f"Suspended{since}", text)
