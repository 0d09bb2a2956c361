"""Addresses of jobs."""

from gpuaas.api.v1.jobs import credentials, templates, views
from gpuaas.api.v1.paths import PROJECT, tagged

JOB = f"{PROJECT}/jobs/<uuid:job>"

job_urls = tagged(
    "jobs",
    (f"{PROJECT}/jobs", views.JobsView, "jobs"),
    (JOB, views.JobDetailView, "job"),
    (f"{JOB}/file", views.JobFileView, "job-file"),
    (f"{JOB}/cancel", views.JobCancelView, "job-cancel"),
    (f"{JOB}/rerun", views.JobRerunView, "job-rerun"),
    (f"{JOB}/log", views.JobLogView, "job-log"),
    (f"{JOB}/retry", views.JobRetryView, "job-retry"),
    (f"{JOB}/tasks", views.JobTasksView, "job-tasks"),
    (f"{PROJECT}/data-credentials", credentials.DataCredentialsView, "data-credentials"),
    (f"{PROJECT}/data-credentials/<uuid:credential>", credentials.DataCredentialView, "data-credential"),
    (f"{PROJECT}/job-templates", templates.JobTemplatesView, "job-templates"),
    (f"{PROJECT}/job-templates/<uuid:job_template>", templates.JobTemplateView, "job-template"),
)
