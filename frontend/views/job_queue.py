"""The queue of a workspace: which of its jobs wait, for what, and by when each starts."""

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from frontend.lists import Column, Filter, Listing, Query, find, list_page, saying
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters.guests import guests_in
from frontend.presenters.inside import free_in
from frontend.presenters.job_queue import row_of
from frontend.views.jobs import trail
from frontend.views.workspaces import workspace_page
from gpuaas.jobs.outlook import Turn, turns_of
from gpuaas.jobs.states import Priority
from gpuaas.workspaces.models import Workspace
from tenants.roles import Permission

LIST = Listing(
    "waiting jobs",
    columns=(
        Column("position", "Position"),
        Column("name", "Job", "row__name"),
        Column("gpus", "GPUs", "row__gpus"),
        Column("size", "vCPU and memory"),
        Column("priority", "Priority"),
        Column("reason", "Why it waits"),
        Column("starts_by", "Starts by"),
        Column("created", "Submitted", "row__created_at", "created_at"),
        Column("created_by"),
    ),
    filters=(find(), Filter("priority", "Priority", "every priority", Priority.choices)),
    size=25,
)


@workspace_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace, row: Workspace) -> HttpResponseBase:
    def found(query: Query) -> list[Turn]:
        named = saying(turns_of(row), query["q"], lambda turn: turn.row.name)
        return [turn for turn in named if query["priority"] in ("", turn.row.priority)]

    context = {
        "workspace": row,
        "chosen": row,
        "free": free_in(row),
        "guests": guests_in(row),
        "jobs_url": reverse("frontend:jobs", args=[here.project.slug]),
        "crumbs": trail(here, Crumb(f"Queue of {row.name}")),
    }
    shown = LIST.of(request, found, lambda turns: list(map(row_of, turns)))
    return list_page(request, "jobs/queue.html", shown, context)
