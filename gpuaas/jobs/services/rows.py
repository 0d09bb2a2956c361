"""What the frame has to know about jobs; and who may change one."""

from gpuaas.jobs.models import Job, JobOperation, JobTransition
from gpuaas.jobs.selectors import SHOWN
from gpuaas.jobs.spec import JOBS
from gpuaas.jobs.states import ALLOWED, CHANGING, MACHINE
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.workspaces.machines.services import run_require
from tenants.actors import Actor

MAY = "run jobs"


def permit(actor: Actor, row: Job) -> None:
    """The same rule as at the site. An outsider gets NotFound."""
    run_require(actor, row.workspace, MAY)


JOB: Kind[Job] = Kind(
    "job",
    Job.objects,
    machine=MACHINE,
    changing=CHANGING,
    allowed=ALLOWED,
    history=JobTransition,
    operations=JobOperation.objects,
    steps=JOBS.steps_of,
    task="jobs.reconcile",
    permit=permit,
    overtaken=frozenset(),
    end=EndWords("it is cancelled", "the job with its log"),
    reads=SHOWN,
    wake="run it again",
)
