"""What runs inside a workspace: the part of its site's driver, and a visit to one, whose plan stands in its own room."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import driver_of, kind_of
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, GpuaasError
from gpuaas.core.outside import outside_transaction
from gpuaas.core.rows import one_or_none
from gpuaas.lifecycle import visits
from gpuaas.lifecycle.actions import Rest
from gpuaas.lifecycle.kind import Kind
from gpuaas.lifecycle.models import Inside
from gpuaas.lifecycle.operations import OperationRow, StepRow, StepState
from gpuaas.providers.base import TENACIOUS, Change, StepOutcome, StepSpec
from gpuaas.providers.base.steps import Provisioner

RowT = TypeVar("RowT", bound=Inside)
DriverT = TypeVar("DriverT", bound=Provisioner[Any])
SpecT = TypeVar("SpecT")


@dataclass(frozen=True)
class Part(Generic[RowT, DriverT, SpecT]):
    """Of a site's driver, what one kind needs. name: of its capability's property; lacks: what a site without it does not do, in
    words. needs: relations of a row that `spec_of` reads. besides: what else of a row may be at the site, and ends with it."""

    capability: type[Any]
    name: str
    lacks: str
    spec_of: Callable[[RowT], SpecT]
    needs: tuple[str, ...]
    besides: Callable[[RowT], tuple[SpecT, ...]] = lambda _row: ()

    def is_offered(self, site: Site) -> bool:
        """Asks the driver's class, not the site."""
        return issubclass(kind_of(site), self.capability)

    def at(self, site: Site) -> DriverT | None:
        """None where the site has no such part."""
        driver = driver_of(site)
        return getattr(driver, self.name) if isinstance(driver, self.capability) else None

    def require(self, site: Site) -> DriverT:
        """Raises Conflict where the site has no such part."""
        found = self.at(site)
        if found is None:
            raise Conflict(f"the site {site.slug} {self.lacks}")
        return found

    def steps_of(self, row: RowT, change: Change, _was: str = "") -> tuple[StepSpec, ...]:
        """Raises Conflict where the site has no such part."""
        return self.require(row.site).steps(change, self.spec_of(row))


@dataclass(frozen=True)
class Visit(Generic[RowT, DriverT, SpecT]):
    """The row as it was read before the work, and its site."""

    row: RowT
    operation: OperationRow | None
    steps: tuple[StepRow, ...]
    driver: DriverT
    spec: SpecT
    besides: tuple[SpecT, ...] = ()

    @property
    def pending(self) -> list[StepRow]:
        """Steps that are not done, in order."""
        return [step for step in self.steps if step.state != StepState.DONE]

    def perform(self, change: Change, key: str) -> StepOutcome:
        for spec in self.besides if change in TENACIOUS else ():
            outcome = visits.step_perform_inside(self.driver, change, spec, key)
            if not outcome.done:
                return outcome
        return visits.step_perform_inside(self.driver, change, self.spec, key)


@dataclass(frozen=True)
class Look:
    """See what it does."""


class Record(visits.Record[RowT], Generic[RowT, DriverT, SpecT]):
    """Reads and writes of a visit, and the actions that are the same for every kind."""

    def __init__(
        self, kind: Kind[RowT], part: Part[RowT, DriverT, SpecT], changing: Mapping[Any, Change]
    ) -> None:
        """changing: in which state which change is under way."""
        super().__init__(kind, "project", *part.needs)
        self._part, self._changing = part, changing

    def run(
        self,
        pk: uuid.UUID,
        plan: Callable[[Visit[RowT, DriverT, SpecT]], Any],
        act: Callable[[Visit[RowT, DriverT, SpecT], Any], bool],
        fail: Callable[[Visit[RowT, DriverT, SpecT], StepRow, GpuaasError], None],
    ) -> None:
        """plan: what to do next. act: does that; True = continue, False = the claim was released. fail: after the last refusal of
        a step, with what the site said."""

        def refused(visit: Visit[RowT, DriverT, SpecT], action: Any, error: GpuaasError) -> None:
            step = action if isinstance(action, StepRow) else None
            change = self._changing.get(visit.row.state)
            self.refused(visit, error, step=step, change=change, fail=lambda step: fail(visit, step, error))

        def work(row: RowT) -> None:
            more = True
            while more:
                visit = self._visit(row)
                action = plan(visit)
                more = visits.attempt(partial(act, visit, action), partial(refused, visit, action))

        visits.visit(self._kind, pk, work)

    def _visit(self, claimed: RowT) -> Visit[RowT, DriverT, SpecT]:
        row = visits.row_again(self._rows, claimed)
        operation = one_or_none(row.operations.filter(finished_at=None).prefetch_related("steps"))
        outside_transaction()
        driver, steps = self._part.require(row.site), tuple(operation.steps.all()) if operation else ()
        return Visit(row, operation, steps, driver, self._part.spec_of(row), self._part.besides(row))

    def act(self, visit: Visit[RowT, DriverT, SpecT], action: Any) -> bool:
        """A step, or rest."""
        if isinstance(action, Rest):
            self.rest(visit, action.until)
            return False
        step: StepRow = action
        self.step_begin(visit, step)
        outcome = visit.perform(self._changing[visit.row.state], step.key)
        if outcome.done:
            self.step_done(visit, step, outcome.detail, visits.reachable())
            return True
        due_at = visits.soon(step.started_at)
        self.step_wait(visit, step, outcome.detail, visits.reachable(), due_at=due_at)
        return False

    def step_begin(
        self,
        visit: Visit[RowT, DriverT, SpecT],
        step: StepRow,
        also: Callable[[RowT], object] = lambda _row: None,
    ) -> None:
        """Unless it has begun. also: what is written with it."""
        if step.state != StepState.WAITING:
            return
        step.state, step.started_at = StepState.RUNNING, clock.now()
        with self.guarded(visit) as row:
            step.save(update_fields=["state", "started_at"])
            also(row)
            self._announce(row)

    def clean_up(self, visit: Visit[RowT, DriverT, SpecT], change: Change) -> None:
        """Ends what a late answer has left at the site, by the steps of `change`."""
        done = all(visit.perform(change, step.key).done for step in visit.driver.steps(change, visit.spec))
        self.rest(visit, None if done else visits.soon())
