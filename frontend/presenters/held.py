"""What pages show of workspaces, clusters, environments and jobs alike: state, address, links, row of a list, buttons, conditions."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse

from frontend import formats
from frontend.forms import sentence_of
from frontend.place import ProjectPlace
from gpuaas.clusters import states as cluster_states
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.rows import CLUSTER
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.core.looks import Tone
from gpuaas.environments import states as environment_states
from gpuaas.environments.models import Environment
from gpuaas.environments.services import ENVIRONMENT
from gpuaas.jobs import states as job_states
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import JOB
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.kind import Kind
from gpuaas.workspaces import states as workspace_states
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.roles import Permission

Held = Workspace | Cluster
Shown = Held | Environment | Job
SOON = timedelta(days=3)
ENDED = "Deleting"  # the reason of what a deletion has ended, as it should
CONDITION_TONES = {Status.TRUE: Tone.OK, Status.FALSE: Tone.BAD, Status.UNKNOWN: Tone.WAIT}
_KINDS: dict[type[Any], tuple[Kind[Any], Any]] = {
    Workspace: (WORKSPACE, workspace_states),
    Cluster: (CLUSTER, cluster_states),
    Environment: (ENVIRONMENT, environment_states),
    Job: (JOB, job_states),
}
LINKS = (
    *("credential", "suspend", "resume", "extend", "delete", "retry"),
    *("suspend_effect", "resume_effect", "extend_effect", "delete_effect", "retry_effect"),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a list."""

    url: str
    name: str
    tone: Tone
    word: str
    holds: str
    site: str
    created_by: str
    created_at: datetime
    lease_ends_at: datetime
    ends_soon: bool


@dataclass(frozen=True, kw_only=True)
class Rights:
    """Which buttons this reader sees now; services decide for themselves. `change`: the reader's role may change what
    the project holds. The others also need a state that allows the verb."""

    change: bool
    retry: bool
    suspend: bool
    resume: bool
    extend: bool
    delete: bool


@dataclass(frozen=True)
class ConditionRow:
    name: str
    tone: Tone
    text: str
    remedy: str
    since: datetime


def kind_of(row: Shown) -> Kind[Any]:
    return _KINDS[type(row)][0]


def states_of(row: Shown) -> Any:
    """The module of its states."""
    return _KINDS[type(row)][1]


def look_of(row: Shown) -> tuple[Tone, str]:
    look = kind_of(row).look(row)
    return look.tone, look.label


def is_moving(row: Shown) -> bool:
    return row.state in states_of(row).CHANGING


def url_of(row: Shown) -> str:
    return reverse(f"frontend:{kind_of(row).noun}", args=[row.project.slug, row.pk])


def urls_of(row: Held, *more: str) -> dict[str, str]:
    """Where the buttons of its page lead; `more`: those that only its kind has."""
    slug, noun = row.project.slug, kind_of(row).noun
    urls = {name: reverse(f"frontend:{noun}_{name}", args=[slug, row.pk]) for name in (*LINKS, *more)}
    urls["page"] = url_of(row)
    urls["audit"] = f"{reverse('frontend:audit', args=[slug])}?q={row.name}"
    return urls


def row_facts(row: Held, *, now: datetime) -> dict[str, Any]:
    """The fields of a `Row`, but what it holds."""
    tone, word = look_of(row)
    return {
        "url": url_of(row),
        "name": row.name,
        "tone": tone,
        "word": word,
        "site": row.site.slug,
        "created_by": row.created_by.username,
        "created_at": row.created_at,
        "lease_ends_at": row.lease_ends_at,
        "ends_soon": row.state != "deleted" and row.lease_ends_at - now < SOON,
    }


def allowed_now(row: Shown) -> frozenset[Verb]:
    kind = kind_of(row)
    return frozenset(verb for verb in states_of(row).ALLOWED if kind.may(row, verb))


def why_not(row: Shown, verb: Verb) -> str:
    """Why that cannot be asked for now, as a sentence; "" where it can be."""
    why = kind_of(row).why_not_now(row, verb)
    return sentence_of(why) if why else ""


def rights_facts(allowed: frozenset[Verb], here: ProjectPlace) -> dict[str, bool]:
    """The fields of `Rights`."""
    change = here.can(Permission.WORKSPACE_CREATE)
    verbs = (Verb.RETRY, Verb.SUSPEND, Verb.RESUME, Verb.EXTEND, Verb.DELETE)
    return {"change": change} | {verb.value: change and verb in allowed for verb in verbs}


def conditions_of(row: Shown) -> tuple[ConditionRow, ...]:
    return tuple(
        ConditionRow(
            name=words_of(item.type),
            tone=Tone.OFF if item.reason == ENDED else CONDITION_TONES[item.status],
            text=formats.local_times(item.message) or words_of(item.reason),
            remedy=item.remedy,
            since=item.since,
        )
        for item in conditions_read(row.conditions)
    )


def words_of(camel: str) -> str:
    """`QuotaInSync` is `Quota in sync`, `GpuDriver` is `GPU driver`, `GpusKept` is `GPUs kept`."""
    text = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in camel).strip()
    short = {"gpu": "GPU", "gpus": "GPUs", "api": "API"}
    words = " ".join(short.get(word, word) for word in text.split())
    return words[:1].upper() + words[1:]
