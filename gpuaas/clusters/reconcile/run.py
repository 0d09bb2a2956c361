"""One run about one cluster: lease, look, call the site with no transaction open, write down, look again."""

import uuid
from datetime import timedelta
from functools import partial

from gpuaas.clusters.models import Cluster, ClusterOperationStep
from gpuaas.clusters.reconcile import record
from gpuaas.clusters.reconcile.job import Job, job_load
from gpuaas.clusters.reconcile.plan import (
    LEFTOVERS_AFTER,
    Action,
    Begin,
    CleanUp,
    Finish,
    Heal,
    Look,
    Observed,
    Rest,
    Restart,
    Step,
    difference,
    plan,
)
from gpuaas.clusters.services.rows import driver_of
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.states import CHANGING, ClusterState
from gpuaas.core import clock
from gpuaas.core.backoff import delay
from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.core.visits import Overtaken, attempt, refused_by_site, retry_at, soon, unreachable, visit
from gpuaas.providers.base import (
    ClusterChange,
    ClusterDriver,
    ClusterSpec,
    ClusterSuspendCapability,
    StepOutcome,
)

REFUSALS_MAX = 3  # of one step; then it failed
RESTARTS_MAX = 8
ACTIONS_MAX = 80
STEP_MAX = timedelta(hours=1)  # of one that the site calls under way; then it failed
# these never give up: what is to go goes, however long it takes
TENACIOUS = {ClusterChange.DELETE, ClusterChange.SUSPEND}


def run(cluster_id: uuid.UUID) -> None:
    """Bring one cluster as far as it gets now. Safe to call at any time, by any number of processes."""
    visit(Cluster, cluster_id, work=lambda row: Visit(row).work(), task="clusters.reconcile")


class Visit:
    """One lease's worth of work. What was seen at the site is forgotten with it."""

    def __init__(self, row: Cluster) -> None:
        self.row = row
        self.observed: Observed | None = None
        self.healed = False

    def work(self) -> None:
        for _ in range(ACTIONS_MAX):
            job = job_load(self.row)
            action = plan(job.desired, self.observed, clock.now())
            try:
                if not self._perform(job, action):
                    return
            except Overtaken:
                self.observed = None
        record.rest(job_load(self.row), soon())

    def _perform(self, job: Job, action: Action) -> bool:
        """True = go on; False = the lease was given back."""
        about = {"cluster": str(job.row.pk), "action": type(action).__name__}
        return attempt(partial(self._call, job, action), partial(refuse, job, action), **about)

    def _call(self, job: Job, action: Action) -> bool:
        match action:
            case Begin():
                record.begin(job)
            case Step(key=key):
                return self._step(job, job.step(key))
            case Look():
                self._look(job)
            case Heal():
                return self._heal(job)
            case CleanUp():
                return self._clean_up(job)
            case _:
                _leave(job, action)
                return False
        return True

    def _step(self, job: Job, step: ClusterOperationStep) -> bool:
        self.observed = None
        record.step_start(job, step)
        outside_transaction()
        change, driver = CHANGING[ClusterState(job.row.state)], driver_of(job.row)
        outcome = step_perform(driver, change, job.spec, step.key)
        if change is ClusterChange.DELETE:
            record.swept(job, driver.inventory(job.spec.ref))
        if outcome.done:
            record.step_done(job, step, outcome.detail)
            return True
        if _is_stuck(step) and change not in TENACIOUS:
            hours = STEP_MAX // timedelta(hours=1)
            raise _Stuck(f"nothing has come of this step for {hours} h; the site says: {outcome.detail}")
        record.step_wait(job, step, outcome.detail, due_at=soon(step.started_at))
        return False

    def _look(self, job: Job) -> None:
        driver = driver_of(job.row)
        outside_transaction()
        gone = job.row.state in {ClusterState.DELETING, ClusterState.DELETED}
        seen = None if gone else driver.observe(job.spec.ref)
        found = driver.inventory(job.spec.ref)
        differs = difference(job.spec, seen) if seen is not None else ""
        record.looked(job, seen, found, differs)
        self.observed = Observed(differs=differs, left=len(found), healed=self.healed)

    def _heal(self, job: Job) -> bool:
        """All steps of making it once more, without an operation: repeating a done step changes nothing."""
        driver = driver_of(job.row)
        self.healed = True
        for step in driver.plan(ClusterChange.CREATE, job.spec).steps:
            record.made_again(job, step)
            outside_transaction()
            if not driver.ensure(job.spec, step.key).done:
                record.rest(job, soon())
                return False
        self.observed = None
        return True

    def _clean_up(self, job: Job) -> bool:
        driver = driver_of(job.row)
        for step in driver.plan(ClusterChange.DELETE, job.spec).steps:
            record.made_again(job, step)
            outside_transaction()
            if not driver.delete(job.spec, step.key).done:
                record.rest(job, clock.now() + timedelta(seconds=5))
                return False
        record.rest(job, clock.now() + LEFTOVERS_AFTER)
        return False


class _Stuck(Permanent):
    """Given up at once: it was waited for long enough."""


def _leave(job: Job, action: Action) -> None:
    """The actions that give the lease back."""
    match action:
        case Finish(state=ClusterState.DELETED):
            record.finish_deleted(job)
        case Finish(state=state):
            record.finish_up(job, asleep=state == ClusterState.SUSPENDED)
        case Restart(reason=reason):
            _again(job, reason)
        case Rest(until=until):
            record.rest(job, until)
        case _:
            raise TypeError(f"{action!r} has nobody to perform it")


def _again(job: Job, reason: str) -> None:
    last = job.steps[-1]
    change = CHANGING[ClusterState(job.row.state)]
    if last.refusals >= RESTARTS_MAX and change not in TENACIOUS:
        record.give_up(job, last, Permanent(f"the site does not keep what was made: {reason}"))
        return
    due_at = clock.now() + timedelta(seconds=delay(last.refusals + 1))
    record.steps_restart(job, reason, due_at=due_at, refused=last)


def step_perform(driver: ClusterDriver, change: ClusterChange, spec: ClusterSpec, key: str) -> StepOutcome:
    match change:
        case ClusterChange.CREATE:
            return driver.ensure(spec, key)
        case ClusterChange.SCALE:
            return driver.scale(spec, key)
        case ClusterChange.UPGRADE:
            return driver.upgrade(spec, key)
        case ClusterChange.DELETE:
            return driver.delete(spec, key)
    if not isinstance(driver, ClusterSuspendCapability):
        raise Permanent(f"the driver {driver.name} cannot put a cluster to sleep")
    if change is ClusterChange.SUSPEND:
        return driver.suspend(spec, key)
    return driver.resume(spec, key)


def refuse(job: Job, action: Action, error: GpuaasError) -> None:
    """A call did not work: come back later, begin the steps anew, or give up; always saying so."""
    due_at = retry_at(job.row, error)
    step = job.step(action.key) if isinstance(action, Step) else None
    if isinstance(error, Unavailable | Unauthorized):
        record.later(job, unreachable(error), due_at=due_at, step=step)
        return
    change = CHANGING.get(ClusterState(job.row.state))
    tried = step.refusals + 1 if step is not None else 0
    hopeless = isinstance(error, _Stuck) or tried >= REFUSALS_MAX
    if step is not None and change not in TENACIOUS and hopeless:
        record.give_up(job, step, error)
    elif isinstance(error, NotFound) and step is not None:
        record.steps_restart(job, error.message, due_at=due_at, refused=step)
    else:
        record.later(job, refused_by_site(error), due_at=due_at, step=step, refused=True)


def _is_stuck(step: ClusterOperationStep) -> bool:
    return step.started_at is not None and clock.now() - step.started_at > STEP_MAX
