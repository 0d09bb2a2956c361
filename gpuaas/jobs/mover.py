"""The mover of a job's files: a job of the site's own without GPUs, which runs rclone."""

import uuid
from collections.abc import Iterable
from typing import Final

from django.conf import settings

from gpuaas.core.crypto import decrypt_json
from gpuaas.jobs.models import DataCredential, Job
from gpuaas.providers.base import FILES_AT, JobSpec
from gpuaas.staging.rclone import VARIABLES, Transfer, config_of, script_of
from gpuaas.staging.transfers import Way
from gpuaas.workspaces.spec import ref_of

USER = 1000  # the numeric account as which jobs and movers run, which owns the homes of environments too
SCRIPT, CONFIG = "move.sh", "rclone.conf"
TAKES: Final = {"gpus": 0, "vcpus": 1, "memory_gib": 1}  # of the workspace, while it is there
RETRIES = 3  # of the pod; rclone itself tries each file several times
LOG_LINES = 200  # of its log that one look reads


def transfers_of(row: Job, way: Way) -> list[dict[str, str]]:
    found: list[dict[str, str]] = row.inputs if way is Way.IN else row.outputs
    return found


def mover_of(row: Job, way: Way, *, sealed: bool = True) -> JobSpec:
    """sealed: without what is secret, which its start alone needs. Raises Conflict for a credential that is there no more."""
    transfers = transfers_of(row, way)
    places = {
        name: f"/volumes/{at}" for at, name in enumerate(dict.fromkeys(each["volume"] for each in transfers))
    }
    files = {SCRIPT: "", CONFIG: ""}
    if not sealed:
        files = {
            SCRIPT: script_of(way, transfers, places),
            CONFIG: config_of(transfers, remotes_of(row.project_id, transfers)),
        }
    return JobSpec(
        id=row.pk,
        name=f"{row.external_name}-{way}",
        workspace=ref_of(row.workspace),
        image=settings.MOVER_IMAGE,
        command=("sh", f"{FILES_AT}/{SCRIPT}"),
        variables={**VARIABLES, "RCLONE_CONFIG": f"{FILES_AT}/{CONFIG}"},
        vcpus=TAKES["vcpus"],
        memory_gib=TAKES["memory_gib"],
        volumes=places,
        files=files,
        user=USER,
        retries=RETRIES,
        deadline_seconds=row.deadline_seconds,
        priority=row.priority,
        notice_seconds=row.workspace.notice_seconds,
    )


def credential_names(project_id: uuid.UUID) -> frozenset[str]:
    return frozenset(DataCredential.objects.filter(project=project_id).values_list("name", flat=True))


def remotes_of(project_id: uuid.UUID, transfers: Iterable[Transfer]) -> dict[str, dict[str, str]]:
    """By the name of a credential, with what is secret."""
    names = {each["credential"] for each in transfers}
    rows = DataCredential.objects.filter(project=project_id, name__in=names)
    return {each.name: _remote(each) for each in rows}


def _remote(row: DataCredential) -> dict[str, str]:
    return {
        "type": "s3",
        "provider": "Other" if row.endpoint else "AWS",
        "access_key_id": row.access_key_id,
        "secret_access_key": str(decrypt_json(row.secret)["secret"]),
        "endpoint": row.endpoint,
        "region": row.region,
        "no_check_bucket": "true",  # it makes none
    }
