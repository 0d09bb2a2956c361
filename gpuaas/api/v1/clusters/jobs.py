"""Jobs on a Slurm cluster: submit, watch, cancel, and read the log."""

import uuid

from django.http import HttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.idempotency import idempotent
from gpuaas.api.parsers import StrictJSONParser, StrictYAMLParser
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.job_shapes import (
    ClusterJobDetailOutput,
    ClusterJobInput,
    ClusterJobLogOutput,
    ClusterJobOutput,
    ClusterJobQuery,
)
from gpuaas.api.v1.clusters.views import ClusterView
from gpuaas.api.v1.yaml import RENDERERS, document_file
from gpuaas.clusters import services
from gpuaas.clusters.job_document import document_of
from gpuaas.clusters.job_rows import cluster_job_get_of, cluster_jobs_of
from gpuaas.clusters.models import ClusterJob
from gpuaas.core.plain_yaml import LONGEST
from tenants.roles import Permission


class ClusterJobViews(ClusterView):
    changes = Permission.WORKSPACE_ACCESS

    def job(self, permission: Permission = Permission.WORKSPACE_VIEW) -> ClusterJob:
        key: uuid.UUID = self.kwargs["cluster_job"]
        return cluster_job_get_of(cluster=self.held(permission), job_id=key)

    def taken(self, row: ClusterJob) -> Response:
        path = {**self.kwargs, "cluster_job": row.pk}
        where = reverse("api:cluster-job", kwargs={name: str(each) for name, each in path.items()})
        return Response(ClusterJobDetailOutput(row).data, status=202, headers={"Location": where})


class ClusterJobsView(ClusterJobViews):
    parser_classes = [StrictJSONParser, StrictYAMLParser]
    # as a document on the page; the longest script fits, also where each character is escaped as two halves
    longest_body = LONGEST

    def admit(self) -> None:
        """Outside the transaction of an idempotent request, which a refusal undoes."""
        if self.request.method == "POST":
            services.login_ask(actor=self.actor, cluster=self.held(self.changes))

    @operation(
        "cluster_job_list", "List jobs of a Slurm cluster", rows=ClusterJobOutput, query=ClusterJobQuery
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Lists jobs that were submitted here, newest first, without their scripts. What people submit on the cluster itself is not
        among them."""
        states = [self.params["state"]] if "state" in self.params else None
        given = {"search": self.params.get("search", ""), "username": self.params.get("created_by", "")}
        rows = cluster_jobs_of(cluster=self.held(), states=states, **given)
        return self.page(rows, ClusterJobOutput, key="-pk")

    @operation(
        "cluster_job_create",
        "Submit a job to a Slurm cluster",
        body=ClusterJobInput,
        accepted=ClusterJobDetailOutput,
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """The head of the cluster hands it to Slurm within a minute, as your own account there. 409 for a cluster whose head takes no
        jobs, or does not let you in yet.

        The body may also be YAML, with the same fields; `…/jobs/{cluster_job}/file` gives any job as such a document."""
        found = self.held(self.changes)
        row = services.cluster_job_submit(actor=self.actor, cluster=found, given=self.input(ClusterJobInput))
        return self.taken(row)


class ClusterJobView(ClusterJobViews):
    @operation("cluster_job_get", "Get a job of a Slurm cluster", answer=ClusterJobDetailOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID, cluster_job: uuid.UUID) -> Response:
        """As the cluster last reported it, which it does twice a minute."""
        return Response(ClusterJobDetailOutput(self.job()).data)


class ClusterJobFileView(ClusterJobViews):
    renderer_classes = RENDERERS

    @operation("cluster_job_file", "Get a job of a Slurm cluster as YAML", file="yaml")
    def get(self, request: Request, project: str, cluster: uuid.UUID, cluster_job: uuid.UUID) -> HttpResponse:
        """What it was given, as a document that submits the same job again when it is sent as it is. What is as usual is left
        out."""
        found = self.job()
        return document_file(found.name, document_of(found))


class ClusterJobCancelView(ClusterJobViews):
    @operation("cluster_job_cancel", "Cancel a job of a Slurm cluster", accepted=ClusterJobDetailOutput)
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID, cluster_job: uuid.UUID) -> Response:
        """Slurm ends it within a minute. Repeating the request changes nothing; 409 for one that has ended."""
        return self.taken(services.cluster_job_cancel(actor=self.actor, job=self.job(self.changes)))


class ClusterJobRetryView(ClusterJobViews):
    @operation(
        "cluster_job_retry",
        "Move the files of a job of a Slurm cluster again",
        accepted=ClusterJobDetailOutput,
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID, cluster_job: uuid.UUID) -> Response:
        """Of one that has failed because its files could not be moved; what was moved stays. 409 for any other."""
        return self.taken(services.cluster_job_retry(actor=self.actor, job=self.job(self.changes)))


class ClusterJobLogView(ClusterJobViews):
    @operation("cluster_job_log", "Get the log of a job of a Slurm cluster", answer=ClusterJobLogOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID, cluster_job: uuid.UUID) -> Response:
        """The end of what it has written to its standard output and error, which is whole in its owner's home on the cluster."""
        return Response(ClusterJobLogOutput(self.job(self.changes)).data)
