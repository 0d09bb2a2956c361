"""Jobs on a Slurm cluster: its list, submitting one, and one with what can be done to it."""

import uuid
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from frontend.forms.cluster_jobs import ClusterJobForm
from frontend.forms.transfers import ROWS, rows_in
from frontend.frame import checked, done, draw_page, posted, refusals_on, refusals_shown
from frontend.lists import Column, Filter, Listing, find, list_page
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters import cluster_jobs as shown
from frontend.views.clusters import cluster_action, cluster_page, trail
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.selectors import cluster_job_get_of, cluster_jobs_of
from gpuaas.clusters.states import ClusterJobState
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.jobs.selectors import credentials_for
from tenants.roles import Permission

VIEW, RUN = Permission.WORKSPACE_VIEW, Permission.WORKSPACE_ACCESS
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
    filters=(find(), Filter("state", "State", "every state", ClusterJobState.choices)),
    size=25,
)


@cluster_page(VIEW)
def index(request: HttpRequest, here: ProjectPlace, row: Cluster) -> HttpResponseBase:
    def found(query: Any) -> Any:
        state = query.one_of("state", ClusterJobState.values)
        return cluster_jobs_of(cluster=row, states=[state] if state else None, search=query["q"])

    listed = LIST.of(request, found, lambda rows: [shown.row_of(one, row) for one in rows])
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
            made = services.cluster_job_submit(actor=here.actor, cluster=row, given=form.asked())
            return done(
                request, f"{made.name} is handed to the cluster.", shown.url_of(row, "cluster_job", made.pk)
            )
    context = {
        "cluster": row,
        "form": form,
        "why_not": shown.why_not(row, here),
        "back_url": shown.url_of(row),
        "crumbs": _trail(here, row, "New"),
    }
    return draw_page(request, "clusters/job_new.html", context)


def _form(request: HttpRequest, here: ProjectPlace, row: Cluster) -> ClusterJobForm:
    """For `more` rows of files what was sent is only shown."""
    partitions = [
        (one.name, f"{one.name}: {one.gpus} GPUs, {one.vcpus} vCPUs, {one.memory_gib} GiB a node")
        for one in services.partitions_of(row).values()
    ]
    given, initial = posted(request), dict[str, Any]()
    rows = rows_in(given or {})
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


@cluster_page(VIEW)
def show(request: HttpRequest, here: ProjectPlace, row: Cluster, cluster_job: uuid.UUID) -> HttpResponse:
    return _draw(request, here, row, cluster_job_get_of(cluster=row, job_id=cluster_job))


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
        "retry_url": shown.url_of(row, "cluster_job_retry", job.pk),
        "cancel_url": shown.url_of(row, "cluster_job_cancel", job.pk),
        "crumbs": _trail(here, row, job.name),
    }
    return draw_page(request, "clusters/job.html", context)
