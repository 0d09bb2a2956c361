"""What runs inside a workspace as pages show it: a row of a list; and what a workspace has free for more."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing.selectors.inside import inside_cost
from frontend import formats
from frontend.components import Fact
from frontend.place import ProjectPlace
from frontend.presenters import held
from frontend.presenters.machines import may_run
from gpuaas.catalog.offers import notice_words
from gpuaas.core.looks import Tone
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import LABELS, room_of
from tenants.roles import Permission


@dataclass(frozen=True)
class Row:
    url: str
    name: str
    tone: Tone
    word: str
    workspace: str
    gpus: str
    size: str
    created_by: str
    created_at: datetime


@dataclass(frozen=True)
class Free:
    """What a workspace has bought of one thing, and what is free of it."""

    name: str
    taken: int
    bought: int
    free: int


def _sizes_of(row: Environment | Job) -> dict[str, int]:
    """Of an environment with its workers, of one task of a job."""
    return row.takes if isinstance(row, Environment) else row.sizes


def gpus_of(row: Environment | Job) -> str:
    lent = ", spot" if row.workspace.is_spot else ""
    count = _sizes_of(row)["gpus"]
    return f"{count} × {row.pool.gpu_type.name}{lent}" if count and row.pool else "none"


def spot_facts(row: Environment | Job) -> tuple[Fact, ...]:
    seconds = row.workspace.notice_seconds
    return (Fact("Spot", notice_words(seconds).removeprefix("Spot: ")),) if seconds else ()


def cost_facts(row: Environment | Job, here: ProjectPlace) -> tuple[Fact, ...]:
    """For those who may see costs. None of what never had a GPU, and nothing of it is charged by itself."""
    if not here.can(Permission.BILLING_VIEW):
        return ()
    found = inside_cost(actor=here.actor, row=row, now=here.now)
    if not (row.has_gpus or found.charged):
        return ()
    spent, share = (formats.money(each, found.currency) for each in (found.charged, found.included))
    limits = "" if found.complete else "; a part of it has no price"
    if found.counted_since is not None:
        limits += f"; counted since {formats.when(found.counted_since)}"
    if row.workspace.is_spot or found.charged:
        facts = [Fact("Cost so far", f"{spent}, charged by itself{limits}")]
        if not found.included:
            return tuple(facts)
        return (*facts, Fact("Share so far", f"{share}, included in what {row.workspace.name} is charged"))
    where = f"{row.workspace.name} is"
    if isinstance(row, Job) and row.lenders:
        where = "the workspaces that it ran in are"
    words = f"{share}, its share of what {where} charged: not charged again{limits}"
    return (Fact("Cost so far", words),)


def fields_of(row: Environment | Job) -> dict[str, Any]:
    """Of its row."""
    (tone, word), sizes = held.look_of(row), _sizes_of(row)
    return {
        "url": held.url_of(row),
        "name": row.name,
        "tone": tone,
        "word": word,
        "workspace": row.workspace.name,
        "gpus": gpus_of(row),
        "size": f"{sizes['vcpus']:,} vCPU · {sizes['memory_gib']:,} GiB",
        "created_by": row.created_by.username,
        "created_at": row.created_at,
    }


def why_not(row: Environment | Job, here: ProjectPlace) -> str:
    """Why the reader has none of its buttons, in a sentence; "" for a reader who may have them."""
    if may_run(row.workspace, here):
        return ""
    if not here.can(Permission.WORKSPACE_ACCESS):
        return "You can only view it: your role in this project is read-only."
    return (
        f"You can only view it: it belongs to {row.workspace.name}, whose members with the role Edit or Admin can change it. "
        "An admin of the workspace or of the project can add you."
    )


def free_in(workspace: Workspace) -> tuple[Free, ...]:
    room = room_of(workspace=workspace)
    amounts = [(pool.gpu_type.name, each) for pool, each in room.pools.items()]
    names = LABELS | {"home_gib": "Storage in GiB"}  # homes are a part of it
    amounts += [(names[name], each) for name, each in room.amounts.items()]
    return tuple(Free(name, each.taken, each.bought, each.free) for name, each in amounts)
