"""One run about one workspace: lease, look, call the site with no transaction open, write down, look again."""

import itertools
import random
import time
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from gpuaas.core import clock
from gpuaas.core.backoff import delay
from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.core.visits import Overtaken, attempt, refused_by_site, retry_at, soon, unreachable, visit
from gpuaas.providers.base import DriftCapability, Driver, MachineCapability, StepOutcome, SuspendCapability
from gpuaas.workspaces.machines.services import machines_look
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import adoption, compared, record, timeline
from gpuaas.workspaces.reconcile.job import Job, job_load
from gpuaas.workspaces.reconcile.plan import (
    LEFTOVERS_AFTER,
    OBSERVE_EVERY,
    Action,
    Begin,
    CleanUp,
    Compare,
    EnsureStep,
    Finish,
    Heal,
    Observe,
    Observed,
    ReleaseStep,
    Rest,
    Restart,
    ResumeStep,
    StepAction,
    SuspendStep,
    Wait,
    drift,
    plan,
)
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import ref_of
from gpuaas.workspaces.states import WorkspaceState
from gpuaas.workspaces.takeover import ADOPT

REFUSALS_MAX = 3  # of one step; then it failed
RESTARTS_MAX = 8
ACTIONS_MAX = 60
# what a site confirms within milliseconds is not worth another visit
SHORTLY = (0.02, 0.04, 0.08, 0.16)
# after these nothing has to be read anew: what they write is checked against lease, state and operation
KNOWN = (Begin, StepAction, Observe)


def run(workspace_id: uuid.UUID) -> None:
    """Bring one workspace as far as it gets now. Safe to call at any time, by any number of processes."""
    visit(Workspace, workspace_id, work=lambda row: Visit(row).work(), task="workspaces.reconcile")


class Visit:
    """One lease's worth of work. What was seen at the site is forgotten with it."""

    def __init__(self, row: Workspace) -> None:
        self.row = row
        self.observed: Observed | None = None
        self.healed = False
        self._opened: Driver | None = None
        self._doing: Action = Observe()
        self._line: timeline.Timeline | None = None

    def work(self) -> None:
        job: Job | None = None
        for _ in range(ACTIONS_MAX):
            job = job or job_load(self.row)
            actions = plan(job.desired, self.observed, clock.now())
            try:
                if not self._perform(job, actions):
                    return
            except Overtaken:
                self.observed, job = None, None
            else:
                job = job if isinstance(actions[0], KNOWN) else None
        record.rest(job_load(self.row), soon())

    def _perform(self, job: Job, actions: tuple[Action, ...]) -> bool:
        """True = go on; False = the lease was given back."""
        self._doing, self._line = actions[0], None
        call = partial(self._steps, job, actions)
        if not isinstance(actions[0], StepAction):
            call = partial(self._call, job, actions[0])
        about = {"workspace": str(job.row.pk), "action": type(self._doing).__name__}
        return attempt(call, partial(self._refused, job), **about)

    def _refused(self, job: Job, error: GpuaasError) -> None:
        """What was done before it is written first."""
        if self._line is not None:
            self._line.write()
        refuse(job, self._doing, error)

    def _call(self, job: Job, action: Action) -> bool:
        match action:
            case Begin():
                timeline.begin(job)
            case Observe():
                self._observe(job)
            case Compare():
                self._compare(job)
            case Heal(safety=safety):
                return self._heal(job, safety=safety)
            case CleanUp():
                return self._clean_up(job)
            case Finish(state=WorkspaceState.SUSPENDED):
                record.finish_suspended(job)
            case _:
                self._leave(job, action)
                return False
        return True

    def _leave(self, job: Job, action: Action) -> None:
        """The actions that give the lease back."""
        match action:
            case Finish(state=WorkspaceState.READY):
                record.finish_ready(job)
            case Finish():
                record.finish_deleted(job)
            case Restart(reason=reason):
                self._again(job, reason)
            case Wait(reason=reason):
                record.waiting(job, reason, due_at=soon(job.waits_since))
            case Rest(until=until):
                record.rest(job, _jittered(until))
            case _:
                raise TypeError(f"{action!r} has nobody to perform it")

    def _driver(self, job: Job) -> Driver:
        """One for the whole visit: a connection to the site is opened once."""
        outside_transaction()
        self._opened = self._opened or driver_of(job.row.site)
        return self._opened

    def _steps(self, job: Job, actions: tuple[Action, ...]) -> bool:
        """All that follow each other, back to back, as long as each is done."""
        self.observed = None
        line, driver = timeline.Timeline(job), self._driver(job)
        self._line = line
        for action in itertools.takewhile(lambda one: isinstance(one, StepAction), actions):
            if not isinstance(action, StepAction) or not self._step(line, driver, action):
                return False
        line.write()
        return True

    def _step(self, line: timeline.Timeline, driver: Driver, action: StepAction) -> bool:
        job, step = line.job, line.job.step(action.key)
        self._doing = action
        line.start(step)
        outcome = step_perform(driver, job, action)
        for pause in SHORTLY if isinstance(action, EnsureStep | ResumeStep) else ():
            if outcome.done:
                break
            time.sleep(pause)
            outcome = step_perform(driver, job, action)
        if outcome.done:
            line.done(step, outcome.detail)
        else:
            line.wait(step, outcome.detail, due_at=soon(step.started_at))
        return outcome.done

    def _observe(self, job: Job) -> None:
        seen = self._driver(job).observe(ref_of(job.row))
        before = self.observed or Observed(seen.exists)
        self.observed = replace(
            before, exists=seen.exists, hard=seen.hard, used=seen.used, healed=self.healed, looked=True
        )
        if job.row.state != WorkspaceState.DELETED:
            record.observation(job, seen, in_sync=drift(job.desired, self.observed))
        if isinstance(self._driver(job), MachineCapability):
            machines_look(workspace=job.row)

    def _again(self, job: Job, reason: str) -> None:
        last = job.steps[-1]
        if last.refusals >= RESTARTS_MAX:
            record.give_up(job, last, f"the site does not keep what was set: {reason}")
            return
        due_at = clock.now() + timedelta(seconds=delay(last.refusals + 1))
        record.steps_restart(job, reason, due_at=due_at, refused=last)

    def _compare(self, job: Job) -> None:
        """Where the driver cannot, what was looked at has to do."""
        driver = self._driver(job)
        told = driver.drift(job.spec) if isinstance(driver, DriftCapability) else ()
        safety = {step.key for step in driver.ensure_steps() if step.safety}
        before = self.observed or Observed(exists=True, healed=self.healed, looked=False)
        self.observed = replace(
            before,
            compared=True,
            differs=compared.words(told) if told else "",
            unsafe=any(one.step in safety for one in told),
        )
        compared.compared(job, told)

    def _heal(self, job: Job, *, safety: bool = False) -> bool:
        """The spec once more, without an operation: repeating a done step changes nothing."""
        driver = self._driver(job)
        compared.mending(job)
        for step in driver.ensure_steps():
            if safety and not step.safety:
                continue
            record.extend(job)
            outside_transaction()
            if not driver.ensure(job.spec, step.key).done:
                record.rest(job, soon(job.drifts.open.found_at if job.drifts.open else None))
                return False
        if not safety:
            record.ensured(job)
        self.healed, self.observed = True, None
        return True

    def _clean_up(self, job: Job) -> bool:
        driver = self._driver(job)
        for step in driver.release_steps():
            record.extend(job)
            if not driver.release(ref_of(job.row), step.key).done:
                record.rest(job, clock.now() + timedelta(seconds=5))
                return False
        record.rest(job, clock.now() + LEFTOVERS_AFTER)
        return False


def step_perform(driver: Driver, job: Job, action: StepAction) -> StepOutcome:
    match action:
        case EnsureStep(key=ADOPT.key):
            return adoption.perform(driver, job)
        case EnsureStep(key=key):
            return driver.ensure(job.spec, key)
        case ReleaseStep(key=key):
            return driver.release(ref_of(job.row), key)
    if not isinstance(driver, SuspendCapability):
        raise Permanent(f"the site {job.row.site.slug} cannot put a workspace to sleep")
    return (driver.suspend if isinstance(action, SuspendStep) else driver.resume)(job.spec, action.key)


def refuse(job: Job, action: Action, error: GpuaasError) -> None:
    """A call did not work: come back later, begin the steps anew, or give up; always saying so."""
    due_at = retry_at(job.row, error)
    step = job.step(action.key) if isinstance(action, StepAction) else None
    if isinstance(error, Unavailable | Unauthorized):
        record.later(job, unreachable(error), due_at=due_at, step=step)
        return
    if step is not None and step.key == ADOPT.key:
        adoption.refused(job, error)
        return
    tried = step.refusals + 1 if step is not None else 0
    if isinstance(action, EnsureStep | ResumeStep) and step is not None and tried >= REFUSALS_MAX:
        record.give_up(job, step, error.message)
        return
    if isinstance(error, NotFound) and step is not None:
        record.steps_restart(job, error.message, due_at=due_at, refused=step)
        return
    record.later(job, refused_by_site(error), due_at=due_at, step=step, refused=True)


def _jittered(until: datetime | None) -> datetime | None:
    return until and until + OBSERVE_EVERY * random.uniform(-0.2, 0.2)  # noqa: S311  spreads load, hides nothing
