"""Jobs of a project: submit, watch, cancel, run again, delete, and read the log."""

import uuid

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer
from gpuaas.api.idempotency import idempotent
from gpuaas.api.parsers import StrictJSONParser, StrictYAMLParser
from gpuaas.api.schema import operation
from gpuaas.api.v1.held import HeldView
from gpuaas.api.v1.jobs.shapes import (
    JobChangeInput,
    JobDetailOutput,
    JobFollowInput,
    JobInput,
    JobLogOutput,
    JobLogQuery,
    JobOutput,
    JobQuery,
    JobRerunInput,
    JobTaskOutput,
    state_of,
)
from gpuaas.api.v1.yaml import RENDERERS, document_file
from gpuaas.core.plain_yaml import LONGEST
from gpuaas.jobs import services
from gpuaas.jobs.document import document_of
from gpuaas.jobs.models import Job
from gpuaas.jobs.seen import tasks_of
from gpuaas.jobs.selectors import job_get_for, jobs_for, jobs_loaded, log_chosen
from gpuaas.jobs.states import JobState
from tenants.roles import Permission


class JobView(HeldView[Job]):
    noun, output, changes = "job", JobOutput, Permission.WORKSPACE_ACCESS
    get_for, loaded = staticmethod(job_get_for), staticmethod(jobs_loaded)


class JobsView(JobView):
    parser_classes = [StrictJSONParser, StrictYAMLParser]
    longest_body = LONGEST

    @operation("job_list", "List jobs", rows=JobOutput, query=JobQuery)
    def get(self, request: Request, project: str) -> Response:
        """Lists jobs of the project, newest first. Deleted ones are included unless `state` excludes them."""
        params = self.params
        rows = jobs_for(
            actor=self.actor,
            project=self.project(Permission.WORKSPACE_VIEW),
            states=[state_of(params["state"])] if "state" in params else list(JobState),
            search=params.get("search", ""),
        )
        asked = {name: params[name] for name in ("workspace", "place") if name in params}
        rows = rows.filter(**asked)
        return self.page(rows, JobOutput, key="-pk")

    @operation("job_create", "Submit a job", body=JobInput, accepted=JobOutput)
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Its inputs are moved first. Then it waits in the queue of its workspace until what it asks for is free, by its
        `priority` and in the order of submission; `waiting` says for what. Refused at once if the workspace is not ready, or
        has not bought as much. With `borrow` it may run in another workspace of the project while its own is full: `place` says
        in which.

        With a `template` it has that one's values for the fields that are left out.

        The body may also be YAML, with the same fields; `…/jobs/{job}/file` gives any job as such a document."""
        found = self.project(self.changes)
        asked = self.input(JobInput)
        return self.accepted(services.job_submit(actor=self.actor, project=found, given=asked))


class JobDetailView(JobView):
    @operation("job_get", "Get a job", answer=JobDetailOutput)
    def get(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """`ETag` is its version, with a digest of this answer: send it as If-Match with a change, which compares the version alone, or
        as If-None-Match to poll cheaply."""
        found = self.held()
        return answer(request, version=found.version, data=JobDetailOutput(found).data)

    @operation(
        "job_prioritize",
        "Change a job's priority",
        body=JobChangeInput,
        accepted=JobOutput,
        versioned=True,
    )
    def patch(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """Of one that has not left the queue of its workspace: jobs of a higher priority leave it first, and those of one priority
        in the order of submission. 409 for one that has left it."""
        return self.changed(services.job_prioritize, JobChangeInput)

    @operation("job_delete", "Delete a job", accepted=JobOutput, versioned=True)
    def delete(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """What runs of it ends, and its log is deleted with it. Repeating the request changes nothing."""
        return self.changed(services.job_delete)


class JobFileView(JobView):
    renderer_classes = RENDERERS

    @operation("job_file", "Get a job as YAML", file="yaml")
    def get(self, request: Request, project: str, job: uuid.UUID) -> HttpResponse:
        """What it was given, as a document that submits the same job again when it is sent as it is. What is as usual is left
        out."""
        found = self.held()
        return document_file(found.name, document_of(found))


class JobCancelView(JobView):
    @operation("job_cancel", "Cancel a job", accepted=JobOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """From any state before its end. Repeating the request changes nothing; 409 for one that has ended."""
        return self.changed(services.job_cancel)


class JobRerunView(JobView):
    @operation("job_rerun", "Run a job again", body=JobRerunInput, accepted=JobOutput)
    @idempotent
    def post(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """Submits another one in the same workspace, the same but for the fields that are sent; an empty `gpu` means the same
        type."""
        found = self.held(self.changes)
        asked = self.input(JobRerunInput)
        asked["gpu"] = asked.get("gpu") or None
        return self.accepted(services.job_rerun(actor=self.actor, job=found, **asked))


class JobRetryView(JobView):
    @operation("job_retry", "Move the files of a job again", accepted=JobOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """Of one that failed because its files could not be moved: what was copied stays, the rest is tried again, and the job
        on. 409 for any other."""
        return self.changed(services.job_retry)


class JobLogView(JobView):
    @operation("job_log", "Get the log of a job", query=JobLogQuery, answer=JobLogOutput)
    def get(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """The end of what its newest attempt has written, taken at least every 15 seconds while it runs, and kept after.

        Of several tasks logs are kept of 20 at most: of those that failed, of those that were followed, and of one that runs."""
        found = self.held(self.changes)
        services.permit(self.actor, found)
        return self._log(found, self.params.get("task"))

    @operation("job_log_follow", "Follow the log of a task", body=JobFollowInput, accepted=JobLogOutput)
    @idempotent
    def post(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """From the next look on the portal takes the log of this task, one task at a time; 409 for a job that has ended."""
        found, asked = self.held(self.changes), self.input(JobFollowInput)
        return self._log(services.job_follow(actor=self.actor, job=found, **asked), asked["task"], status=202)

    def _log(self, row: Job, asked: int | None, *, status: int = 200) -> Response:
        task, found = log_chosen(row, asked)
        text, taken_at = (found.text, found.taken_at) if found is not None else ("", None)
        return Response(JobLogOutput({"task": task, "text": text, "taken_at": taken_at}).data, status=status)


class JobTasksView(JobView):
    @operation("job_tasks", "List the tasks of a job", rows=JobTaskOutput)
    def get(self, request: Request, project: str, job: uuid.UUID) -> Response:
        """All of them, by their numbers. Where and how they ran is known of 50 at most, of those that failed first."""
        return self.page(tasks_of(self.held()), JobTaskOutput, key="key")
