"""One run about one workspace: claim, observe, call the site with no transaction open, write, observe again."""

import itertools
import random
import time
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from gpuaas.core import clock
from gpuaas.core.backoff import delay
from gpuaas.core.errors import GpuaasError, Unauthorized, Unavailable
from gpuaas.lifecycle import visits
from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest, Restart
from gpuaas.providers.base import TENACIOUS, Change, DriftCapability, Driver, MachineCapability, StepOutcome
from gpuaas.workspaces.adoption_plan import ADOPT
from gpuaas.workspaces.machines.services import machines_look
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import adoption, compared, record, timeline
from gpuaas.workspaces.reconcile.job import Job, enforced, job_load
from gpuaas.workspaces.reconcile.plan import (
    OBSERVE_EVERY,
    Action,
    Compare,
    Heal,
    Observe,
    Observed,
    Step,
    Wait,
    drift,
    plan,
)
from gpuaas.workspaces.services.rows import WORKSPACE
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import ref_of
from gpuaas.workspaces.states import WorkspaceState

ACTIONS_MAX = 60
# what a site confirms within milliseconds is not worth another visit
SHORTLY = (0.02, 0.04, 0.08, 0.16)
# after these nothing has to be read anew: what they write is checked against claim, state and operation
KNOWN = (Begin, Step, Observe)


def run(workspace_id: uuid.UUID) -> None:
    """Brings one workspace as far as possible now. Safe to call at any time, in any number of processes."""
    visits.visit(WORKSPACE, workspace_id, lambda row: Visit(row).work())


class Visit:
    """The work of one claim. Observations of the site are dropped with it."""

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
            except visits.Overtaken:
                self.observed, job = None, None
            else:
                job = job if isinstance(actions[0], KNOWN) else None
        record.rest(job_load(self.row), visits.soon())

    def _perform(self, job: Job, actions: tuple[Action, ...]) -> bool:
        """True = continue; False = the claim was released."""
        self._doing, self._line = actions[0], None
        call = partial(self._steps, job, actions)
        if not isinstance(actions[0], Step):
            call = partial(self._call, job, actions[0])
        about = {"workspace": str(job.row.pk), "action": type(self._doing).__name__}
        return visits.attempt(call, partial(self._refused, job), **about)

    def _refused(self, job: Job, error: GpuaasError) -> None:
        """Results so far are written first."""
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
        """The actions that release the claim."""
        match action:
            case Finish(state=WorkspaceState.READY):
                record.finish_ready(job)
            case Finish():
                record.finish_deleted(job)
            case Restart(reason=reason, counts=counts):
                self._again(job, reason, counts=counts)
            case Wait(reason=reason):
                record.waiting(job, reason, due_at=visits.soon(job.waits_since))
            case Rest(until=until):
                record.rest(job, _jittered(until))
            case _:
                raise TypeError(f"no handler for {action!r}")

    def _driver(self, job: Job) -> Driver:
        """One driver for the visit: the connection to the site is opened once."""
        outside_transaction()
        self._opened = self._opened or driver_of(job.row.site)
        return self._opened

    def _steps(self, job: Job, actions: tuple[Action, ...]) -> bool:
        """All consecutive steps, as long as each is done."""
        self.observed = None
        line, driver = timeline.Timeline(job), self._driver(job)
        self._line = line
        for action in itertools.takewhile(lambda one: isinstance(one, Step), actions):
            if not isinstance(action, Step) or not self._step(line, driver, action):
                return False
        line.write()
        return True

    def _step(self, line: timeline.Timeline, driver: Driver, action: Step) -> bool:
        job, step = line.job, line.job.step(action.key)
        self._doing = action
        line.start(step)
        outcome = _perform(driver, job, action)
        for pause in SHORTLY if action.change not in TENACIOUS else ():
            if outcome.done:
                break
            time.sleep(pause)
            outcome = _perform(driver, job, action)
        if outcome.done:
            line.done(step, outcome.detail)
        else:
            line.wait(step, outcome.detail, due_at=visits.soon(step.started_at))
        return outcome.done

    def _observe(self, job: Job) -> None:
        seen = self._driver(job).observe(ref_of(job.row))
        before = self.observed or Observed(seen.exists)
        self.observed = replace(
            before,
            exists=seen.exists,
            hard=enforced(job.spec, seen),
            used=seen.used,
            healed=self.healed,
            looked=True,
        )
        if job.row.state != WorkspaceState.DELETED:
            record.observation(job, seen, in_sync=drift(job.desired, self.observed))
        if isinstance(self._driver(job), MachineCapability):
            machines_look(workspace=job.row)

    def _again(self, job: Job, reason: str, *, counts: bool) -> None:
        last = job.steps[-1]
        if counts and last.refusals >= visits.RESTARTS_MAX:
            record.give_up(job, last, f"the site does not retain what was set: {reason}")
            return
        due_at = clock.now() + timedelta(seconds=delay(last.refusals + 1))
        record.steps_restart(job, reason, due_at=due_at, refused=last, counts=counts)

    def _compare(self, job: Job) -> None:
        """If the driver cannot compare, the observation is used."""
        driver = self._driver(job)
        drifts = driver.drift(job.spec) if isinstance(driver, DriftCapability) else ()
        safety = {step.key for step in driver.steps(Change.CREATE) if step.safety}
        before = self.observed or Observed(exists=True, healed=self.healed, looked=False)
        self.observed = replace(
            before,
            compared=True,
            differs=compared.words(drifts) if drifts else "",
            unsafe=any(one.step in safety for one in drifts),
        )
        compared.compared(job, drifts)

    def _heal(self, job: Job, *, safety: bool = False) -> bool:
        """The spec once more, without an operation: repeating a finished step changes nothing."""
        driver = self._driver(job)
        driver.connection.change_require()
        compared.mending(job)
        for step in driver.steps(Change.CREATE):
            if safety and not step.safety:
                continue
            record.extend(job)
            outside_transaction()
            if not driver.perform(Change.CREATE, job.spec, step.key).done:
                record.rest(job, visits.soon(job.drifts.open.found_at if job.drifts.open else None))
                return False
        if not safety:
            record.ensured(job)
        self.healed, self.observed = True, None
        return True

    def _clean_up(self, job: Job) -> bool:
        driver = self._driver(job)
        for step in driver.steps(Change.DELETE):
            record.extend(job)
            if not driver.perform(Change.DELETE, job.spec, step.key).done:
                record.rest(job, clock.now() + timedelta(seconds=5))
                return False
        record.rest(job, clock.now() + visits.LEFTOVERS_AFTER)
        return False


def _perform(driver: Driver, job: Job, action: Step) -> StepOutcome:
    if action.key == ADOPT.key:
        return adoption.perform(driver, job)
    return visits.step_perform(driver, action.change, job.spec, action.key)


def refuse(job: Job, action: Action, error: GpuaasError) -> None:
    """After a failed call: retry later, start the steps again, or give up; always with a message."""
    step = job.step(action.key) if isinstance(action, Step) else None
    away = isinstance(error, Unavailable | Unauthorized)
    if step is not None and step.key == ADOPT.key and not away:
        adoption.refused(job, error)
        return
    record.RECORD.refused(
        job,
        error,
        step=step,
        change=action.change if isinstance(action, Step) else None,
        fail=lambda step: record.give_up(job, step, error.message),
        spec_digest="",
    )


def _jittered(until: datetime | None) -> datetime | None:
    return until and until + OBSERVE_EVERY * random.uniform(-0.2, 0.2)  # noqa: S311  spreads load, hides nothing
