"""Jobs on a Slurm cluster: its list, submitting one, and one with what can be done to it."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from frontend.components import Fact
from frontend.forms.cluster_jobs import ClusterJobForm
from frontend.forms.job_files import ClusterJobFileForm
from frontend.forms.transfers import ROWS, filled_of, rows_in
from frontend.frame import Refusals, checked, done, draw_page, posted, refusals_on, refusals_shown
from frontend.lists import Column, Filter, Listing, find, list_page, narrowed, offered
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters import cluster_jobs as shown
from frontend.views.clusters import cluster_action, cluster_page, trail
from frontend.views.jobs import document_file
from gpuaas.clusters import services
from gpuaas.clusters.job_document import document_of
from gpuaas.clusters.job_rows import cluster_job_get_of, cluster_job_people, cluster_jobs_of
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.states import ClusterJobState
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.core.plain_yaml import plain_yaml
from gpuaas.core.retention import EMPTIED
from gpuaas.jobs.selectors import credentials_for
from gpuaas.staging.transfers import FILES
from tenants.roles import Permission

AGAIN = "again"  # names an earlier job in the address of the form
VIEW, RUN = Permission.WORKSPACE_VIEW, Permission.WORKSPACE_ACCESS
EXAMPLE = {
    "name": "train",
    "script": "module load cuda\npython train.py\n",
    "cpus_per_task": 4,
    "minutes": 600,
}
LIST = Listing(
    "cluster-jobs",
    columns=(
        Column("name", "Name", "name"),
        Column("state", "State", "state", "word"),
        Column("slurm_id", "Job in Slurm", "slurm_id"),
        Column("partition", "Partition", "partition"),
        Column("size", "Size"),
        Column("created", "Submitted", "created_at", "created_at"),
        Column("finished", "Ended", "finished_at", "finished_at"),
        Column("created_by"),
        Column("note"),
    ),
    filters=(
        find(),
        Filter("state", "State", "every state", ClusterJobState.choices),
        Filter("created_by", "Submitted by", "everybody"),
    ),
    size=25,
)


@cluster_page(VIEW)
def index(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponseBase:
    def found(query: Any) -> Any:
        state = query.one_of("state", ClusterJobState.values)
        rows = cluster_jobs_of(cluster=row, states=[state] if state else None, search=query["q"])
        return narrowed(rows, query, {"created_by": "created_by__username"})

    people = cluster_job_people(cluster=row)
    listed = LIST.of(
        request, found, lambda rows: [shown.row_of(one, row) for one in rows], created_by=offered(people)
    )
    why = shown.why_not(row, here)
    context = {
        "cluster": row,
        "live": f"cluster:{row.pk}",
        "why_not": why,
        "new_url": "" if why else shown.url_of(row, "cluster_job_new"),
        "crumbs": trail(here, row, Crumb("Jobs")),
    }
    return list_page(request, "clusters/jobs.html", listed, context)


@cluster_page(RUN)
@checked
def new(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    form = _form(request, here, row)
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict):
            return _submitted(request, here, row, form.asked())
    context = {
        **_tabs(row),
        "cluster": row,
        "form": form,
        "why_not": shown.why_not(row, here),
        "back_url": shown.url_of(row),
        "crumbs": _trail(here, row, "New"),
    }
    return draw_page(request, "clusters/job_new.html", context)


@cluster_page(RUN)
@checked
def new_file(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponse:
    form = ClusterJobFileForm(posted(request), request.FILES or None)
    if form.is_valid():
        with Refusals(form.refuse, Invalid, Conflict, Forbidden):
            return _submitted(request, here, row, form.read.value)
    partitions = list(services.partitions_of(row).values())
    context = {
        **_tabs(row),
        "cluster": row,
        "form": form,
        "why_not": shown.why_not(row, here),
        "example": plain_yaml(
            EXAMPLE | {"gpus_per_node": 1} if any(one.gpus for one in partitions[:1]) else EXAMPLE
        ),
        "partitions": [Fact(one.name, shown.workers_of(one)) for one in partitions],
        "back": shown.url_of(row),
        "crumbs": _trail(here, row, "New"),
    }
    return draw_page(request, "clusters/job_new_file.html", context)


def _submitted(
    request: HttpRequest, here: ProjectPlace, row: Cluster, given: Mapping[str, Any]
) -> HttpResponse:
    made = services.cluster_job_submit(actor=here.actor, cluster=row, given=given)
    return done(request, f"{made.name} is queued for the cluster.", shown.url_of(row, "cluster_job", made.pk))


def _tabs(row: Cluster) -> dict[str, str]:
    return {
        "form_url": shown.url_of(row, "cluster_job_new"),
        "file_url": shown.url_of(row, "cluster_job_new_file"),
    }


def _form(request: HttpRequest, here: ProjectPlace, row: Cluster) -> ClusterJobForm:
    """For `more` rows of files what was sent is only shown."""
    partitions = [(one.name, shown.partition_of(one)) for one in services.partitions_of(row).values()]
    given, initial = posted(request), _earlier(request, row)
    rows = rows_in(given or initial)
    if given is not None and "more" in given:
        rows = {way: count + ROWS for way, count in rows.items()}
        initial, given = given.dict(), None
    return ClusterJobForm(
        given,
        initial=initial,
        partitions=partitions,
        wrong=partial(services.cluster_job_wrong, cluster=row),
        rows=rows,
        credentials=list(credentials_for(**here.given).values_list("name", flat=True)),
    )


def _earlier(request: HttpRequest, row: Cluster) -> dict[str, Any]:
    """What was ordered of the job that is to run again; nothing of one that is not there."""
    with suppress(ValueError, NotFound):
        job = cluster_job_get_of(cluster=row, job_id=uuid.UUID(request.GET.get(AGAIN, "")))
        if job.emptied_at is not None:
            raise Conflict(EMPTIED)
        return {name: getattr(job, name) for name in ClusterJobForm.base_fields} | filled_of(
            {name: getattr(job, name) for name in FILES}
        )
    return {}


@cluster_page(VIEW)
def show(request: HttpRequest, here: ProjectPlace, row: Cluster, cluster_job: uuid.UUID) -> HttpResponse:
    return _draw(request, here, row, cluster_job_get_of(cluster=row, job_id=cluster_job))


@cluster_page(VIEW)
def file(request: HttpRequest, here: ProjectPlace, row: Cluster, cluster_job: uuid.UUID) -> HttpResponse:
    found = cluster_job_get_of(cluster=row, job_id=cluster_job)
    return document_file(found.name, document_of(found))


@cluster_action(RUN)
def cancel(request: HttpRequest, here: ProjectPlace, row: Cluster, cluster_job: uuid.UUID) -> HttpResponse:
    found = cluster_job_get_of(cluster=row, job_id=cluster_job)
    with refusals_shown(request, Conflict):
        services.cluster_job_cancel(actor=here.actor, job=found)
        return done(request, f"Cancelling {found.name}.", shown.url_of(row, "cluster_job", found.pk))
    return _draw(request, here, row, found)


@cluster_action(RUN)
def retry(request: HttpRequest, here: ProjectPlace, row: Cluster, cluster_job: uuid.UUID) -> HttpResponse:
    found = cluster_job_get_of(cluster=row, job_id=cluster_job)
    with refusals_shown(request, Conflict):
        services.cluster_job_retry(actor=here.actor, job=found)
        return done(
            request, f"Moving the files of {found.name} again.", shown.url_of(row, "cluster_job", found.pk)
        )
    return _draw(request, here, row, found)


def _trail(here: ProjectPlace, row: Cluster, last: str) -> tuple[Crumb, ...]:
    return trail(here, row, Crumb("Jobs", shown.url_of(row)), Crumb(last))


def _draw(request: HttpRequest, here: ProjectPlace, row: Cluster, job: ClusterJob) -> HttpResponse:
    context = {
        "cluster": row,
        "job": job,
        "page": shown.page_of(job, here),
        "page_url": shown.url_of(row, "cluster_job", job.pk),
        "cluster_url": shown.url_of(row, "cluster"),
        "again_url": ""
        if job.emptied_at is not None or shown.why_not(row, here)
        else f"{shown.url_of(row, 'cluster_job_new')}?{AGAIN}={job.pk}",
        "file_url": shown.url_of(row, "cluster_job_file", job.pk),
        "retry_url": shown.url_of(row, "cluster_job_retry", job.pk),
        "cancel_url": shown.url_of(row, "cluster_job_cancel", job.pk),
        "crumbs": _trail(here, row, job.name),
    }
    return draw_page(request, "clusters/job.html", context)
