"""One run about one cluster: claim, observe, call its sites with no transaction open, write, observe again."""

import uuid
from dataclasses import replace
from datetime import timedelta
from functools import partial

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterOperationStep
from gpuaas.clusters.reconcile import record
from gpuaas.clusters.reconcile.job import Job, job_load
from gpuaas.clusters.reconcile.plan import (
    Action,
    Heal,
    Look,
    Observed,
    Step,
    awake_still,
    difference,
    plan,
)
from gpuaas.clusters.reconcile.record import Seen
from gpuaas.clusters.services.rows import CLUSTER, driver_of
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.spec import Part
from gpuaas.clusters.states import CHANGING, ClusterState
from gpuaas.core import clock
from gpuaas.core.backoff import delay
from gpuaas.core.claims import retry_at
from gpuaas.core.errors import GpuaasError, Permanent, Unauthorized, Unavailable
from gpuaas.lifecycle import visits
from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest, Restart
from gpuaas.lifecycle.operations import StepState
from gpuaas.providers.base import (
    TENACIOUS,
    Change,
    ClusterBurstCapability,
    ClusterSpec,
)

ACTIONS_MAX = 80
STEP_MAX = timedelta(hours=1)  # of one that the site calls under way, without news of it; then it failed
Away = Unavailable | Unauthorized  # why a site does not answer


def run(cluster_id: uuid.UUID) -> None:
    """Brings one cluster as far as possible now. Safe to call at any time, in any number of processes."""
    visits.visit(CLUSTER, cluster_id, lambda row: Visit(row).work())


class Visit:
    """The work of one claim. Observations of the sites are dropped with it; `away`: why some sites do not answer."""

    def __init__(self, row: Cluster) -> None:
        self.row = row
        self.away: dict[str, Away] = {}
        self.current_site: Site | None = None
        self.observed: Observed | None = None
        self.healed = False

    def work(self) -> None:
        for _ in range(ACTIONS_MAX):
            job = job_load(self.row)
            action = plan(job.desired(self.away), self.observed, clock.now())
            try:
                if not self._perform(job, action):
                    return
            except visits.Overtaken:
                self.observed = None
        record.rest(job_load(self.row), visits.soon())

    def _perform(self, job: Job, action: Action) -> bool:
        """True = continue; False = the claim was released."""
        about = {"cluster": str(job.row.pk), "action": type(action).__name__}
        refused = partial(self._refused, job, action)
        return visits.attempt(partial(self._call, job, action), refused, **about)

    def _refused(self, job: Job, action: Action, error: GpuaasError) -> None:
        refuse(job, action, error, site=self.current_site)

    def _call(self, job: Job, action: Action) -> bool:
        self.current_site = None
        match action:
            case Begin():
                record.begin(job)
            case Step(name=name):
                return self._step(job, job.step(name))
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
        """If the site of this step does not answer and another has something to do, that comes first."""
        try:
            return self._step_do(job, step)
        except (Unavailable, Unauthorized) as error:
            slug = self.current_site.slug if self.current_site else ""
            self.away.setdefault(slug, error)
            if job.desired(self.away).is_held_up:
                raise
            record.passed_over(job, self.current_site, error)
            return True

    def _step_do(self, job: Job, step: ClusterOperationStep) -> bool:
        self.observed = None
        part, change = job.part(step), CHANGING[ClusterState(job.row.state)]
        record.step_start(job, step)
        outside_transaction()
        spec = self._reached(part) if change in TENACIOUS else self._joined(job, part)
        driver = driver_of(job.row, part.site)
        outcome = visits.step_perform(driver, change, spec, step.key)
        if change is Change.DELETE:
            last = outcome.done and all(one.pk == step.pk or _is_done(one) for one in job.steps_at(part))
            record.swept(job, part, driver.inventory(part.spec.ref), last=last)
        if outcome.done:
            record.step_done(job, step, outcome.detail)
            return True
        if _is_stuck(step, outcome.detail) and change not in TENACIOUS:
            hours = STEP_MAX // timedelta(hours=1)
            raise _Stuck(f"this step has not moved for {hours} h; the site reports: {outcome.detail}")
        record.step_wait(job, step, outcome.detail, due_at=visits.soon(step.started_at))
        return False

    def _reached(self, part: Part) -> ClusterSpec:
        """From now on this site is called. One that did not answer a moment ago is not called again in this visit."""
        self.current_site = part.site
        if part.slug in self.away:
            raise self.away[part.slug]
        return part.spec

    def _joined(self, job: Job, part: Part) -> ClusterSpec:
        """With what new workers at a burst site need, read from the cluster's own site; never stored."""
        if part.site is None or not part.spec.workers:
            return self._reached(part)
        own = self._reached(job.parts[0])
        driver = driver_of(job.row)
        if not isinstance(driver, ClusterBurstCapability):
            raise Permanent(f"clusters of the driver {driver.name} cannot have pools at other sites")
        join = driver.join(own)
        return replace(self._reached(part), join=join)

    def _look(self, job: Job) -> None:
        """At every site. One that does not answer is waited for only if the change needs it, or if everything must be
        proved gone."""
        outside_transaction()
        gone = job.row.state in {ClusterState.DELETING, ClusterState.DELETED}
        seen: list[Seen] = []
        missed: Part | None = None
        for part in job.parts:
            try:
                seen.append(self._seen(job, part, gone=gone))
            except (Unavailable, Unauthorized) as error:
                self.away.setdefault(part.slug, error)
                record.passed_over(job, part.site, error)
                if gone or part.site is None or job.steps_at(part):
                    missed = missed or part
        # of what has no part in a change the next look without one tells, and mends it
        asked = [one for one in seen if one.part.site is None or not job.steps or job.steps_at(one.part)]
        compared = awake_still if job.row.state == ClusterState.SUSPENDING else difference
        differences = [compared(one.part.spec, one.cluster) for one in asked if one.cluster is not None]
        differs = next(filter(None, differences), "")
        if seen:
            record.looked(job, seen, differs)
        if missed is not None:
            self._reached(missed)
        left = sum(len(one.found) for one in seen)
        self.observed = Observed(differs=differs, left=left, healed=self.healed)

    def _seen(self, job: Job, part: Part, *, gone: bool) -> Seen:
        spec, driver = self._reached(part), driver_of(job.row, part.site)
        return Seen(part, None if gone else driver.observe(spec.ref), driver.inventory(spec.ref))

    def _heal(self, job: Job) -> bool:
        """All steps of the creation once more, without an operation: repeating a finished step changes nothing."""
        self.healed = True
        for part in job.parts:
            driver = driver_of(job.row, part.site)
            for step in () if part.slug in self.away else driver.steps(Change.CREATE, part.spec):
                record.made_again(job, part, step)
                outside_transaction()
                if not driver.perform(Change.CREATE, self._joined(job, part), step.key).done:
                    record.rest(job, visits.soon())
                    return False
        self.observed = None
        return True

    def _clean_up(self, job: Job) -> bool:
        for part in job.parts:
            driver = driver_of(job.row, part.site)
            for step in driver.steps(Change.DELETE, part.spec):
                record.made_again(job, part, step)
                outside_transaction()
                if not driver.perform(Change.DELETE, self._reached(part), step.key).done:
                    record.rest(job, clock.now() + timedelta(seconds=5))
                    return False
        record.rest(job, clock.now() + visits.LEFTOVERS_AFTER)
        return False


class _Stuck(Permanent):
    """Gives up at once: it has waited long enough."""


def _leave(job: Job, action: Action) -> None:
    """The actions that release the claim."""
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
            raise TypeError(f"no handler for {action!r}")


def _again(job: Job, reason: str) -> None:
    last = job.steps[-1]
    change = CHANGING[ClusterState(job.row.state)]
    if last.refusals >= visits.RESTARTS_MAX and change not in TENACIOUS:
        record.give_up(job, last, Permanent(f"the site does not retain what was created: {reason}"))
        return
    due_at = clock.now() + timedelta(seconds=delay(last.refusals + 1))
    record.steps_restart(job, reason, due_at=due_at, refused=last)


def refuse(job: Job, action: Action, error: GpuaasError, *, site: Site | None = None) -> None:
    """After a failed call to a site: retry later, start the steps again, or give up; always with a message."""
    step = job.step(action.name) if isinstance(action, Step) else None
    if isinstance(error, Unavailable | Unauthorized):
        record.later(job, record.silent(site, error), due_at=retry_at(job.row, error), step=step)
        return
    record.RECORD.refused(
        job,
        error,
        step=step,
        change=CHANGING.get(ClusterState(job.row.state)),
        fail=lambda step: record.give_up(job, step, error),
        hopeless=isinstance(error, _Stuck),
    )


def _is_done(step: ClusterOperationStep) -> bool:
    return step.state == StepState.DONE


def _is_stuck(step: ClusterOperationStep, detail: str) -> bool:
    """Time since the site's last news counts, not since its begin: thirty workers that are replaced in turn take hours."""
    since = step.moved_at or step.started_at
    return step.detail == detail[:500] and since is not None and clock.now() - since > STEP_MAX
