"""Jobs of a project: the list, submitting one or the same again, and one with what can be done to it."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.urls import reverse

from frontend.components import Fact
from frontend.forms.job_files import JobFileForm
from frontend.forms.jobs import JobForm, again, initial_of
from frontend.forms.transfers import ROWS, rows_in
from frontend.frame import (
    Refusals,
    checked,
    done,
    draw_page,
    name_typed,
    posted,
    refusals_on,
    refusals_shown,
)
from frontend.lists import (
    Column,
    Filter,
    Listing,
    find,
    list_page,
    narrowed,
    offered,
    state_choices,
    states_of,
)
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_page, row_doors
from frontend.presenters import held
from frontend.presenters import jobs as shown
from frontend.views.gpus import gpus_page
from frontend.views.inside import Rooms, awake, first, form_shown, rooms_for
from frontend.views.usage import crumbs
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.core.plain_yaml import plain_yaml
from gpuaas.gpustats.selectors import job_figures
from gpuaas.jobs import services
from gpuaas.jobs.document import document_of
from gpuaas.jobs.models import Job, JobTemplate
from gpuaas.jobs.selectors import credentials_for, job_get_for, jobs_for, queues_in, templates_for
from gpuaas.jobs.spec import JOBS
from gpuaas.jobs.states import LIVE, JobState, Priority, TaskState
from tenants.roles import Permission

RUN = Permission.WORKSPACE_ACCESS
EXAMPLE = {
    "name": "train",
    "image": "ghcr.io/lab/train:3",
    "command": ["sh", "-c", "python prepare.py\npython train.py\n"],
    "variables": {"EPOCHS": "3"},
    "gpus": 1,
    "vcpus": 4,
    "memory_gib": 16,
}
LIST = Listing(
    "jobs",
    columns=(
        Column("name", "Name", "name"),
        Column("state", "State", "state", "word"),
        Column("workspace", "Workspace", "workspace__name"),
        Column("gpus", "GPUs", "gpus"),
        Column("size", "vCPU and memory"),
        Column("tasks"),
        Column("priority"),
        Column("place"),
        Column("created", "Submitted", "created_at", "created_at"),
        Column("finished", "Ended", "finished_at", "finished_at"),
        Column("created_by"),
        Column("note"),
    ),
    filters=(
        find(),
        Filter("state", "State", "every state", state_choices(JobState)),
        Filter("workspace", "Workspace", "every workspace"),
    ),
    size=25,
)
TASKS = Listing(
    "tasks",
    columns=(
        Column("number", "Task", "number"),
        Column("state", "State", "", "word"),
        Column("node", "Node", "node"),
        Column("attempt", "Attempt", "attempt"),
        Column("exit_code", "Exit code", "exit_code"),
        Column("reason"),
        Column("log", "Log", quiet=True, value=None),
    ),
    filters=(Filter("state", "State", "every state", TaskState.choices),),
    size=25,
)


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    mine = Job.objects.filter(project=here.project, state__in=list(LIVE)).order_by("workspace__name")
    found = LIST.of(
        request,
        lambda query: narrowed(
            jobs_for(**here.given, states=states_of(query, JobState, LIVE), search=query["q"]),
            query,
            {"workspace": "workspace__name"},
        ),
        lambda rows: list(map(shown.row_of, rows)),
        workspace=offered(mine.values_list("workspace__name", flat=True).distinct()),
    )
    context = {
        "new_url": reverse("frontend:job_new", args=[here.project.slug]),
        "templates_url": reverse("frontend:job_templates", args=[here.project.slug]),
        "may_submit": here.can(RUN),
        "queues": [
            (name, f"{count:,} waiting", reverse("frontend:job_queue", args=[here.project.slug, pk]))
            for pk, name, count in queues_in(here.project)
        ],
        "crumbs": crumbs(here, "Jobs"),
    }
    return list_page(request, "jobs/list.html", found, context)


def template_chosen(
    request: HttpRequest, here: ProjectPlace
) -> tuple[list[JobTemplate], str, JobTemplate | None]:
    """The project's, what was named, and which one that is."""
    templates = list(templates_for(**here.given))
    named = (posted(request) or request.GET).get("template", "")
    return templates, named, next((each for each in templates if each.name == named), None)


@project_page(RUN)
@checked
def new(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    templates, named, template = template_chosen(request, here)
    rooms = rooms_for(here, JOBS, awake(here))
    initial = first(request, rooms) | (initial_of(template.order) if template is not None else {})
    form = _form(request, here, rooms, initial, template)
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict):
            given = {"workspace": form.cleaned_data["workspace"], **form.asked()}
            given |= {"template": named} if named else {}
            made = services.job_submit(**here.given, given=given)
            return done(request, f"{made.name} is in the queue.", held.url_of(made))
    context = {
        **_tabs(here),
        "templates": [each.name for each in templates],
        "template": template,
        "gone": f"The project has no template {named[:40]}." if named and template is None else "",
        "save_url": reverse("frontend:job_template_new", args=[here.project.slug]),
    }
    back = reverse("frontend:jobs", args=[here.project.slug])
    return _draw_form(request, form, rooms, "New job", back, trail(here, Crumb("New")), **context)


@project_page(RUN)
@checked
def new_file(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    """As a document, which is tried like the form."""
    form = JobFileForm(posted(request), request.FILES or None)
    if form.is_valid():
        with Refusals(form.refuse, Invalid, Conflict, Forbidden):
            made = services.job_submit(**here.given, given=form.read.value)
            return done(request, f"{made.name} is in the queue.", held.url_of(made))
    rooms = rooms_for(here, JOBS, awake(here))
    context = {
        **_tabs(here),
        "form": form,
        "example": plain_yaml({"workspace": next(iter(rooms), "its id"), **EXAMPLE}),
        "rooms": [Fact(room.name, pk) for pk, room in rooms.items()],
        "back": reverse("frontend:jobs", args=[here.project.slug]),
        "crumbs": trail(here, Crumb("New")),
    }
    return draw_page(request, "jobs/new_file.html", context)


def _tabs(here: ProjectPlace) -> dict[str, str]:
    at = [here.project.slug]
    return {
        "form_url": reverse("frontend:job_new", args=at),
        "file_url": reverse("frontend:job_new_file", args=at),
    }


def _form(
    request: HttpRequest,
    here: ProjectPlace,
    rooms: Rooms,
    initial: dict[str, Any],
    template: JobTemplate | None = None,
) -> JobForm:
    given, more = filled(request, here, initial, template)
    return JobForm(given, **more, rooms=rooms, wrong=services.job_wrong, template=template)


def filled(
    request: HttpRequest, here: ProjectPlace, initial: dict[str, Any], template: JobTemplate | None = None
) -> tuple[QueryDict | None, dict[str, Any]]:
    """What was sent to a form of a job, if it is to be judged, and what else the form is made with. For `more` rows of files, and
    where it is the `start` of another form, what was sent is only shown."""
    given = posted(request)
    rows = rows_in(initial if given is None else {**initial, **given})
    if given is not None and given.keys() & {"more", "start"}:
        rows = {way: count + ROWS * ("more" in given) for way, count in rows.items()}
        # a browser sends nothing of what the template locks, nor of a box that is not checked
        locked = template.locked if template is not None else ()
        unchecked = {name: "" for name in ("together", "borrow", "mail") if name not in locked}
        initial, given = {**initial, **unchecked, **given.dict()}, None
    names = credentials_for(**here.given).values_list("name", flat=True)
    return given, {"rows": rows, "credentials": list(names), "initial": initial}


def _draw_form(
    request: HttpRequest,
    form: JobForm,
    rooms: Rooms,
    title: str,
    back: str,
    way: tuple[Crumb, ...],
    **more: object,
) -> HttpResponse:
    context = {
        **more,
        **form_shown(form, rooms),
        "title": title,
        "submit": "Submit job",
        "back": back,
        "crumbs": way,
    }
    return draw_page(request, "jobs/new.html", context)


def job_at(here: ProjectPlace, job: uuid.UUID, permission: Permission) -> Job:
    """A job of the URL's project; another project's is not found here even by people who may see it there."""
    row = job_get_for(actor=here.actor, job_id=job, permission=permission)
    if row.project_id != here.project.pk:
        raise NotFound("there is no such job")
    return row


def document_file(name: str, text: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}.yaml"'}
    return HttpResponse(text, content_type="application/yaml", headers=headers)


job_page, job_action = row_doors(job_at, "job")


def trail(here: ProjectPlace, *rest: Crumb) -> tuple[Crumb, ...]:
    return (*crumbs(here, "Jobs", reverse("frontend:jobs", args=[here.project.slug])), *rest)


def _draw(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponseBase:
    asked = request.GET.get("task", "")
    task = int(asked) if asked.isdecimal() and len(asked) < 10 else row.tasks
    page = shown.page_of(row, here, task if task < row.tasks else None)
    urls = shown.urls_of(row)
    if asked and page.task is not None:
        urls["page"] += f"?task={page.task}"
    context = {
        "job": row,
        "page": page,
        "live": f"job:{row.pk}",
        "trigger": f"live{', every 5s' if page.moving else ''}",
        "urls": urls,
        "delete_title": f"Delete {row.name}?",
        "priorities": Priority.choices,
        "crumbs": trail(here, Crumb(row.name)),
    }
    if row.tasks == 1:
        return draw_page(request, "jobs/detail.html", context)
    found = TASKS.of(
        request,
        lambda query: [each for each in shown.tasks_of(row) if query["state"] in {"", each.state}],
        lambda rows: shown.task_rows(row, page, rows),
    )
    return list_page(request, "jobs/detail.html", found, context)


show = job_page(Permission.WORKSPACE_VIEW)(_draw)


@job_page(Permission.WORKSPACE_VIEW)
def gpus(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponseBase:
    """What its GPUs do, or did; its page fetches a part of it."""
    figures = job_figures(actor=here.actor, job=row, now=here.now)
    way = trail(here, Crumb(row.name, held.url_of(row)), Crumb("GPUs"))
    return gpus_page(
        request, row.name, figures, here.zone, way, title="Use of its GPUs while it ran", mean="Mean"
    )


@job_page(Permission.WORKSPACE_VIEW)
def file(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponse:
    """What it was given, as a document that submits it again."""
    return document_file(row.name, document_of(row))


@job_page(RUN)
@checked
def rerun(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponse:
    """Its form with what it was given, in the same workspace."""
    found = [room for room in awake(here) if room == row.workspace]
    rooms = rooms_for(here, JOBS, found)
    form = _form(request, here, rooms, again(row))
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict):
            made = services.job_rerun(actor=here.actor, job=row, **form.asked())
            return done(request, f"{made.name} is in the queue.", held.url_of(made))
    back = held.url_of(row)
    way = trail(here, Crumb(row.name, back), Crumb("Run again"))
    return _draw_form(request, form, rooms, f"Run {row.name} again", back, way)


@job_action(RUN)
def follow(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponseBase:
    with refusals_shown(request, Conflict, Invalid):
        typed = request.POST.get("task", "")[:9]
        task = int(typed) if typed.isdecimal() else -1
        before, now = row.followed, services.job_follow(actor=here.actor, job=row, task=task).followed
        words = f"The log of task {task} is taken at the next look, and from then on."
        if before is not None and before != now:
            words += f" One task is followed at a time: task {before} no longer is."
        return done(request, words, f"{held.url_of(row)}?task={task}")
    return _draw(request, here, row)


@job_action(RUN)
def retry(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponseBase:
    with refusals_shown(request, Conflict):
        services.job_retry(actor=here.actor, job=row)
        return done(request, f"The files of {row.name} are moved again.", held.url_of(row))
    return _draw(request, here, row)


@job_action(RUN)
def prioritize(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponseBase:
    with refusals_shown(request, Conflict, Invalid):
        typed = request.POST.get("priority", "")
        now = services.job_prioritize(actor=here.actor, job=row, priority=typed)
        words = f"The priority of {row.name} is {now.get_priority_display().lower()}."
        return done(request, words, held.url_of(row))
    return _draw(request, here, row)


@job_action(RUN)
def cancel(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponseBase:
    with refusals_shown(request, Conflict):
        services.job_cancel(actor=here.actor, job=row)
        return done(request, f"Cancelling {row.name}.", held.url_of(row))
    return _draw(request, here, row)


@job_action(RUN)
def delete(request: HttpRequest, here: ProjectPlace, row: Job) -> HttpResponseBase:
    if not name_typed(request, row.name):
        return _draw(request, here, row)
    services.job_delete(actor=here.actor, job=row)
    back = reverse("frontend:jobs", args=[here.project.slug])
    return done(request, f"Deleting {row.name} and its log.", back)
