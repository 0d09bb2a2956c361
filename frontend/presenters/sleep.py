"""Suspending and resuming in words: what stops, what stays, what has to be free again."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from frontend import formats
from frontend.components import Notice, Tone
from frontend.place import ProjectPlace
from frontend.presenters.pods import PodRow
from frontend.presenters.words import words_of
from frontend.presenters.workspaces import holds_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState

ENDED = frozenset({"Done", "Failed", "Refused"})


@dataclass(frozen=True)
class Sleep:
    """The words of both dialogs, and the notice of a workspace that sleeps."""

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


def after_lease() -> str:
    """What comes when nobody extends it."""
    days = settings.LEASE_GRACE_DAYS
    if not days:
        return "Then everything in it is deleted."
    return f"Then it is suspended; {days} day{'' if days == 1 else 's'} later everything in it is deleted."


def _gpus(workspace: Workspace) -> str:
    parts = [f"{item.count} × {item.flavor.name}" for item in workspace.flavors.all() if item.count]
    return ", ".join(parts) or "no GPUs"


def _stops(workspace: Workspace, pods: Sequence[PodRow]) -> tuple[str, ...]:
    given = f"Its GPUs are given back to everybody: {_gpus(workspace)}."
    if words_of(workspace.site).machines:
        return ("Machines are shelved: they end, and their disks are kept.", given)
    running = [pod for pod in pods if pod.word not in ENDED]
    bare = [pod.name for pod in running if not pod.owner]
    count = f"All {len(running)} pods that run or wait end" if len(running) > 1 else "What runs ends"
    said = [f"{count}. Deployments and other controllers are scaled to zero and come back as they were."]
    if bare:
        named = ", ".join(bare[:3]) + (f" and {len(bare) - 3} more" if len(bare) > 3 else "")
        said.append(f"Pods made by hand do not come back: {named}.")
    else:
        said.append("Pods made by hand, if there are any, do not come back.")
    return (*said, given)


def _stays(workspace: Workspace) -> tuple[str, ...]:
    consumer = words_of(workspace.site).consumer
    data = f"Volumes, up to {workspace.storage_gib:,} GiB; they" if workspace.storage_gib else "Volumes; they"
    return (
        f"{data} cost what they cost now. GPUs, vCPU and memory cost nothing once the last {consumer} is gone.",
        "Members, credentials, secrets, configuration. The lease goes on.",
    )


def _wakes(workspace: Workspace) -> tuple[str, ...]:
    needed = f"It needs {_gpus(workspace)} again, within the limits and free at {workspace.site.slug}."
    back = "shelved" if words_of(workspace.site).machines else "scaled to zero"
    return (
        f"{needed} If they are not, it stays suspended and says what is missing.",
        f"What was {back} comes back as it was. It is paid for again from when the site confirms it.",
    )


def _notice(workspace: Workspace, here: ProjectPlace) -> Notice | None:
    if workspace.state != WorkspaceState.SUSPENDED:
        return None
    since = f" since {formats.when(workspace.suspended_at, here.zone)}" if workspace.suspended_at else ""
    text = f"Nothing runs and nothing may be started. Data and access are kept. It had {holds_of(workspace)}."
    return Notice(Tone.OFF, f"Suspended{since}", text)
