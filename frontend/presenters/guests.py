"""Whether a workspace is open to its project, and the jobs of other workspaces that are in it."""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend.lists import some_of
from frontend.place import ProjectPlace
from frontend.presenters import held, inside
from gpuaas.core.looks import Tone
from gpuaas.jobs.models import Job
from gpuaas.jobs.selectors import guests_of
from gpuaas.jobs.spec import JOBS
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from tenants.roles import Permission

SHOWN = 10
WHILE = (
    "They leave for jobs of this workspace, with a notice of 2 minutes. What they take counts against its quota: meanwhile a new "
    "environment, and what members start themselves, can be refused."
)
OPENED = f"While there is room, jobs of the project's other workspaces may run here. {WHILE}"
CLOSED = f"Only its own jobs run here. Once it is open, jobs of the project's other workspaces may, while there is room. {WHILE}"


@dataclass(frozen=True)
class Guest:
    url: str
    name: str
    workspace: str
    gpus: str
    tone: Tone
    word: str
    placed_at: datetime | None


@dataclass(frozen=True)
class Lent:
    """may: whether the reader may open and close it; url: where that is sent; queue_url: where all its guests are."""

    is_open: bool
    guests: tuple[Guest, ...]
    count: int
    may: bool
    text: str
    url: str
    queue_url: str


def guest_of(row: Job) -> Guest:
    tone, word = held.look_of(row)
    return Guest(
        url=held.url_of(row),
        name=row.name,
        workspace=row.workspace.name,
        gpus=inside.gpus_of(row),
        tone=tone,
        word=word,
        placed_at=row.placed_at,
    )


def guests_in(workspace: Workspace) -> tuple[Guest, ...]:
    return tuple(map(guest_of, guests_of(workspace)))


def lent_of(workspace: Workspace, here: ProjectPlace) -> Lent | None:
    """None where it lends to nobody: of spot, and where no jobs run."""
    allowed = held.allowed_now(workspace)
    if workspace.is_spot or Verb.MANAGE not in allowed or not JOBS.is_offered(workspace.site):
        return None
    found, count = some_of(guests_of(workspace), SHOWN)
    at = [workspace.project.slug, workspace.pk]
    return Lent(
        is_open=workspace.open_to_project,
        guests=tuple(map(guest_of, found)),
        count=count,
        may=here.can(Permission.WORKSPACE_CREATE),
        text=OPENED if workspace.open_to_project else CLOSED,
        url=reverse("frontend:workspace_lend", args=at),
        queue_url=reverse("frontend:job_queue", args=at),
    )
