"""The mover of a job's files: a job of the site's own without GPUs, which runs rclone; and how far it is, by what it writes.

All that it copies is compared by checksums, and what is there already is left out: so one that is made again continues where the
one before it ended.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from django.conf import settings

from gpuaas.core.crypto import decrypt_json
from gpuaas.core.errors import Conflict
from gpuaas.core.texts import storable
from gpuaas.jobs.models import DataCredential, Job
from gpuaas.jobs.states import Way
from gpuaas.jobs.transfers import HTTPS, S3
from gpuaas.providers.base import FILES_AT, JobSpec, ObservedJob
from gpuaas.workspaces.spec import ref_of

USER = 1000  # the numeric account as which jobs and movers run, which owns the homes of environments too
SCRIPT, CONFIG = "move.sh", "rclone.conf"
TAKES: Final = {"gpus": 0, "vcpus": 1, "memory_gib": 1}  # of the workspace, while it is there
RETRIES = 3  # of the pod; rclone itself tries each file several times
LOG_LINES = 200  # of its log that one look reads
MARK = "transfer"
HERE = "/proc/self/cwd"  # unlike `.`, of which rclone makes a path that may lead elsewhere by then
# $1: the folder of a volume; after it, the names that lead to what is moved. Each is entered by itself, so it stays what was looked at.
ENTER = """\
no() { printf '{"level": "error", "msg": "the folder %s"}\\n' "$1"; exit 1; }
enter() {
volume=$1; cd "$volume"; shift
for name; do
"""
ENTERED = """\
cd -P "./$name" || no "is not in its volume"
case "$(pwd -P)/" in "$volume"/*) ;; *) no "leads out of its volume" ;; esac
done
}"""
MAKES = 'mkdir -p "./$name" || no "cannot be made in its volume"\n'
VARIABLES: Final = {
    "RCLONE_CONFIG": f"{FILES_AT}/{CONFIG}",
    "RCLONE_CACHE_DIR": "/tmp",  # noqa: S108  in its container
    "RCLONE_CHECKSUM": "true",
    "RCLONE_RETRIES": "3",
    "RCLONE_TRANSFERS": "8",
    "RCLONE_USE_JSON_LOG": "true",
    "RCLONE_STATS": "2s",
    "RCLONE_STATS_LOG_LEVEL": "NOTICE",
}
# of the counts that rclone writes, what is kept; of files and bytes those that it has to copy, without what is there already
COUNTS: Final = {
    "bytes": "bytes",
    "total_bytes": "totalBytes",
    "files": "transfers",
    "total_files": "totalTransfers",
    "checked": "checks",
}


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
        files = {SCRIPT: script_of(way, transfers, places), CONFIG: _config(row, transfers)}
    return JobSpec(
        id=row.pk,
        name=f"{row.external_name}-{way}",
        workspace=ref_of(row.workspace),
        image=settings.MOVER_IMAGE,
        command=("sh", f"{FILES_AT}/{SCRIPT}"),
        variables=VARIABLES,
        vcpus=TAKES["vcpus"],
        memory_gib=TAKES["memory_gib"],
        volumes=places,
        files=files,
        user=USER,
        retries=RETRIES,
        deadline_seconds=row.deadline_seconds,
        notice_seconds=row.workspace.notice_seconds,
    )


def script_of(way: Way, transfers: Sequence[Mapping[str, str]], places: Mapping[str, str]) -> str:
    """One after the other; the first that fails ends it.

    A program of the tenant's may have put a link in the way, and rclone follows one on its way to where it begins: to the keys in
    FILES_AT, for one. Below that it reads none; but a pod of the workspace that replaces a folder by a link just as rclone enters it
    can still lead it elsewhere.
    """
    lines = ["set -e", ENTER + (MAKES if way is Way.IN else "") + ENTERED]
    for at, each in enumerate(transfers):
        url, names = each["url"], [name for name in each["folder"].split("/") if name]
        lines.append(f"echo {shlex.quote(json.dumps({MARK: at}))}")
        lines.append(shlex.join(("enter", places[each["volume"]], *names)))
        if url.startswith(HTTPS):
            path = unquote(urlsplit(url).path).lstrip("/")
            words = ("copyto", f"t{at}:{path}", f"{HERE}/{path.rpartition('/')[2]}")
        else:
            there = f"t{at}:{url.removeprefix(S3)}"
            words = ("copy", there, HERE) if way is Way.IN else ("copy", HERE, there)
        lines.append(shlex.join(("rclone", *words)))
    return "\n".join((*lines, ""))


def _config(row: Job, transfers: Iterable[Mapping[str, str]]) -> str:
    """A remote for each transfer."""
    known = {each.name: each for each in DataCredential.objects.filter(project=row.project_id)}
    sections = []
    for at, each in enumerate(transfers):
        if each["url"].startswith(HTTPS):
            parts = urlsplit(each["url"])
            fields = {"type": "http", "url": f"https://{parts.netloc}"}
        else:
            if (found := known.get(each["credential"])) is None:
                raise Conflict(
                    f"the project has no data credential {each['credential']} any more: add it again, and retry"
                )
            fields = _remote(found)
        sections.append(
            "\n".join([f"[t{at}]", *(f"{key} = {value}" for key, value in fields.items() if value)])
        )
    return "\n\n".join((*sections, ""))


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


# -- how far it is -------------------------------------------------------------------------------------------------


def progress_of(text: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """By the number of the transfer, its counts. text: the end of the log; before: what was known. Pure; reads whatever a program
    writes."""
    found = {key: value for key, value in before.items() if key != "done"}
    at = str(max(map(int, found), default=0))
    for line in map(_line, text.splitlines()):
        if type(number := line.get(MARK)) is int and number >= 0:
            at = str(number)
            found.setdefault(at, {})
        stats = line.get("stats")
        if isinstance(stats, dict):
            counts = {name: stats.get(theirs) for name, theirs in COUNTS.items()}
            found[at] = {
                name: each for name, each in counts.items() if type(each) is int and 0 <= each < 2**63
            }
    return found


def failure_of(text: str, way: Way, seen: ObservedJob) -> str:
    """In a sentence, with the last error that rclone wrote."""
    errors = [line for line in map(_line, text.splitlines()) if line.get("level") in {"error", "critical"}]
    why = str(errors[-1].get("msg", "")).strip() if errors else seen.detail
    return storable(f"its {way.label.lower()} could not be moved: {' '.join(why.split())}")[:500]


def _line(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
