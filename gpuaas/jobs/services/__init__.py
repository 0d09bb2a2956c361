"""Writes of jobs."""

from gpuaas.jobs.services.changes import (
    job_cancel,
    job_create,
    job_delete,
    job_follow,
    job_prioritize,
    job_rerun,
    job_retry,
    job_submit,
    job_wrong,
)
from gpuaas.jobs.services.credentials import credential_create, credential_delete
from gpuaas.jobs.services.queue import queue_start
from gpuaas.jobs.services.rows import JOB, permit
from gpuaas.jobs.services.templates import template_change, template_create, template_delete

__all__ = [
    "JOB",
    "credential_create",
    "credential_delete",
    "job_cancel",
    "job_create",
    "job_delete",
    "job_follow",
    "job_prioritize",
    "job_rerun",
    "job_retry",
    "job_submit",
    "job_wrong",
    "permit",
    "queue_start",
    "template_change",
    "template_create",
    "template_delete",
]
