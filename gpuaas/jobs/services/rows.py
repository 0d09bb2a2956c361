"""What the frame has to know about jobs; and who may change one."""

from gpuaas.core.errors import Conflict
from gpuaas.jobs.models import Job, JobOperation, JobTransition
from gpuaas.jobs.selectors import SHOWN
from gpuaas.jobs.spec import jobs_at, spec_of
from gpuaas.jobs.states import ALLOWED, CHANGING, MACHINE
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.providers.base import Change, StepSpec
from gpuaas.workspaces.machines.services import run_require
from tenants.actors import Actor

MAY = "run jobs"


def permit(actor: Actor, row: Job) -> None:
    """The same rule as at the site. An outsider gets NotFound."""
    run_require(actor, row.workspace, MAY)


def steps_of(row: Job, change: Change, _was: str = "") -> tuple[StepSpec, ...]:
    """Raises Conflict where the site runs no jobs."""
    found = jobs_at(row.site)
    if found is None:
        raise Conflict(f"the site {row.site.slug} runs no jobs")
    return found.steps(change, spec_of(row))


JOB: Kind[Job] = Kind(
    "job",
    Job.objects,
    machine=MACHINE,
    changing=CHANGING,
    allowed=ALLOWED,
    history=JobTransition,
    operations=JobOperation.objects,
    steps=steps_of,
    task="jobs.reconcile",
    permit=permit,
    overtaken=frozenset(),
    end=EndWords("it is cancelled", "the job with its log"),
    reads=SHOWN,
    wake="run it again",
)
