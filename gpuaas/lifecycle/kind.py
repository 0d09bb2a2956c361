"""What the frame has to know about one kind, and what every service does with a row of it."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from django.db import models, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from gpuaas.core import clock, events
from gpuaas.core.conditions import condition_set
from gpuaas.core.errors import Conflict
from gpuaas.core.queue import poke
from gpuaas.core.rows import first_of, version_require
from gpuaas.core.statemachine import Look, Machine, TransitionRow
from gpuaas.lifecycle.allowed import Allowed, Verb
from gpuaas.lifecycle.models import Provisioned
from gpuaas.lifecycle.operations import OperationRow, steps_write
from gpuaas.providers.base import Change, StepSpec
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record

PORTAL = "portal"  # who acts, in histories
# values of states that every kind has
SUSPENDING, SUSPENDED, FAILED = "suspending", "suspended", "failed"
ASLEEP, AWAKE = frozenset({"suspending", "suspended"}), frozenset({"resuming", "ready"})
GOING = frozenset({"deleting", "deleted"})
# where a verb has led already, or leads just now: to ask for it again changes nothing
ALREADY = {Verb.SUSPEND: ASLEEP, Verb.RESUME: AWAKE, Verb.DELETE: GOING}
# what the portal asks for as well, at the end of a lease or of a budget; its noun
ENDINGS = {Verb.SUSPEND: "suspension", Verb.DELETE: "deletion"}
# what nobody may begin while the lease is over
NEEDS_LEASE = frozenset({Verb.RETRY, Verb.RESIZE, Verb.UPGRADE, Verb.RESUME})
ConditionChange = Mapping[str, Any]  # of a condition: what `condition_set` takes
RowT = TypeVar("RowT", bound=Provisioned)


class EndWords(NamedTuple):
    """What happens at the end of the lease, and what is deleted after the grace period."""

    suspension: str
    deletion: str


class Kind(Generic[RowT]):
    """noun: for people, in events and in actions of the audit log; also the column of an operation that refers to it.
    reads: related rows to load with a locked row. task: that of the reconciler. allowed: verbs by state. permit:
    raises if an actor may not change a row at all. overtaken: states that the portal's own suspension ends, whatever it
    is that they wait for. end: words for the end of a lease. changing: in which state which change is under way. steps:
    those of a change of a row, and of the state that it comes from. cured: what a new change clears of a failure. wake:
    what to do first with one that sleeps. inside: what a room above does with what is in a row, in the transaction that takes
    it down.
    """

    def __init__(
        self,
        noun: str,
        rows: models.Manager[RowT],
        *,
        machine: Machine[Any],
        history: type[TransitionRow],
        operations: models.Manager[Any],
        task: str,
        allowed: Mapping[Verb, Allowed],
        permit: Callable[[Actor, RowT], None],
        overtaken: frozenset[str],
        end: EndWords,
        changing: Mapping[Any, Change],
        steps: Callable[[RowT, Change, str], Iterable[StepSpec]],
        cured: Mapping[str, Any] = MappingProxyType({}),
        reads: tuple[str, ...] = ("project__organization", "site"),
        wake: str = "resume it first",
    ) -> None:
        self.noun, self.rows, self._operations = noun, rows, operations
        self.overtaken, self.end = overtaken, end
        self._state_of = {change: state for state, change in changing.items()}
        self._steps, self._cured = steps, cured
        self._allowed, self._permit = allowed, permit
        self._machine, self._history = machine, history
        self._state = type(next(iter(machine.looks)))
        self._reads, self.task, self._wake = reads, task, wake
        self.inside: list[Callable[[RowT, Actor, Verb], None]] = []

    def lock(self, pk: Any, *, expected_version: int | None = None, unless: Container[str] = ()) -> RowT:
        """The row as it is now, locked until the transaction ends. It is locked before anything else.

        `unless`: states in which nothing will be changed, so that its version does not matter. Raises StaleVersion.
        """
        rows = self.rows.select_for_update(of=("self",), no_key=True).select_related(*self._reads)
        row = first_of(rows.filter(pk=pk), self.noun)
        if row.state not in unless:
            version_require(row.version, expected_version, self.noun)
        return row

    def lock_all(self, pks: Iterable[Any]) -> dict[Any, RowT]:
        """Those of the rows that there are, as they are now, locked until the transaction ends. Everybody who locks several does so in
        the order of their keys: nobody waits for somebody who waits."""
        rows = self.rows.select_for_update(of=("self",), no_key=True).select_related(*self._reads)
        return {row.pk: row for row in rows.filter(pk__in=list(pks)).order_by("pk")}

    def asked(self, actor: Actor, row: RowT, verb: Verb, expected_version: int | None = None) -> RowT:
        """The row, locked, if the verb is allowed to the actor now or changes nothing (`is_already`).

        Raises NotFound, Forbidden, StaleVersion, Conflict.
        """
        self._permit(actor, row)
        found = self.lock(row.pk, expected_version=expected_version, unless=ALREADY.get(verb, ()))
        if self.is_already(found, verb):
            return found
        if not (verb is Verb.SUSPEND and actor == SYSTEM and self._yields(found)):
            self.require(found, verb)
        if over := self._lease_over(found, verb):
            raise Conflict(over, detail={"state": found.state})
        return found

    def _yields(self, row: RowT) -> bool:
        """Nothing that a tenant has begun keeps the portal from suspending what was ready once."""
        return row.ready_at is not None and (row.state in self.overtaken or row.state == FAILED)

    def open_since(self, moment: datetime, **of_it: Any) -> Exists:
        """Rows whose operation under way was requested by then; `of_it`: what else it has to be."""
        open_ones = self._operations.filter(**{self.noun: OuterRef("pk")}, finished_at__isnull=True)
        return Exists(open_ones.filter(requested_at__lte=moment, **of_it))

    def awake(self, moment: datetime) -> Q:
        """What the portal can suspend: what is ready, what failed later, and what has been changing since `moment`."""
        changing = Q(self.open_since(moment), state__in=self.overtaken, ready_at__isnull=False)
        return Q(state="ready") | Q(state=FAILED, ready_at__isnull=False) | changing

    def overdue(self, moment: datetime) -> QuerySet[RowT]:
        """What the portal itself began to suspend or delete by then, and no site has confirmed."""
        begun = self.open_since(moment, requested_by=SYSTEM.name)
        return self.rows.filter(begun, state__in=(SUSPENDING, "deleting"))

    def is_already(self, row: RowT, verb: Verb) -> bool:
        return row.state in ALREADY.get(verb, ())

    def why_not(self, row: RowT, verb: Verb) -> str:
        """Why the verb is not allowed now, in words; "" if it is allowed."""
        rule = self._allowed[verb]
        if row.state in rule.states:
            return ""
        return rule.failed(row) if row.state == FAILED and rule.failed else self._while(row)

    def why_not_now(self, row: RowT, verb: Verb) -> str:
        """What `asked` would refuse it with: because of the state, as `why_not`, or of the lease."""
        return self.why_not(row, verb) or self._lease_over(row, verb)

    def _lease_over(self, row: RowT, verb: Verb) -> str:
        over = verb in NEEDS_LEASE and row.lease_ends_at <= clock.now()
        return "the lease has ended: extend it first" if over else ""

    def may(self, row: RowT, verb: Verb) -> bool:
        return not self.why_not(row, verb)

    def require(self, row: RowT, verb: Verb) -> None:
        """Raises Conflict if the verb is not allowed now."""
        if why := self.why_not(row, verb):
            raise Conflict(why, detail={"state": row.state})

    def look(self, row: RowT) -> Look:
        return self._machine.looks[self._state(row.state)]

    def _while(self, row: RowT) -> str:
        label = self.look(row).label.lower()
        then = f"; {self._wake}" if row.state == SUSPENDED else ""
        return f"this cannot be done while the {self.noun} is {label}{then}"

    def move(self, row: RowT, to: str, *, actor: str = PORTAL, reason: str = "", **changes: Any) -> None:
        """Writes the history row and increases the version. Raises Conflict as the kind's state machine does."""
        state, history = self._state(to), self._history
        self._machine.transition(row, to=state, history=history, actor=actor, reason=reason, **changes)

    def lead(self, row: RowT, actor: Actor, change: Change, reason: str, **changes: Any) -> None:
        """Moves the row to the change's state, due at once. The caller writes the operation."""
        due = {"due_at": clock.now(), "attempts": 0}
        state = self._state_of[change]
        self.move(row, state, actor=actor.name, reason=reason, **due, **self._cured, **changes)

    def begin(
        self,
        row: RowT,
        actor: Actor,
        change: Change,
        *,
        summary: str = "",
        admission: str = "",
        reason: str = "",
        **changes: Any,
    ) -> None:
        """Moves the row to the change's state, with the operation whose steps lead out of it."""
        was = row.state
        self.lead(row, actor, change, reason, **changes)
        steps = self._steps(row, change, was)
        self.operation_start(row, change, actor, steps=steps, summary=summary, admission=admission)

    def operation_start(
        self,
        row: RowT,
        kind: str,
        actor: Actor,
        *,
        steps: Iterable[StepSpec],
        summary: str = "",
        admission: str = "",
    ) -> OperationRow:
        """`admission`: what was reserved; then the operation starts with that step already done."""
        moment = clock.now()
        about = {"kind": str(kind), "requested_by": actor.name, "requested_at": moment}
        operation: OperationRow = self._operations.create(**{self.noun: row}, **about, summary=summary[:200])
        steps_write(operation, steps, admission=admission, now=moment)
        return operation

    @transaction.atomic
    def take_down(
        self,
        actor: Actor,
        seen: RowT,
        verb: Verb,
        expected_version: int | None,
        reason: str,
        first: Callable[[RowT], Mapping[str, Any]] = lambda _row: {},
    ) -> RowT:
        """Suspends or deletes it; a change under way ends. Repeating it changes nothing.

        `first`: what has to be so besides, on the locked row; returns what the change writes with the new state.
        """
        row = self.asked(actor, seen, verb, expected_version)
        if self.is_already(row, verb):
            return row
        changes = first(row)
        for follow in self.inside:
            follow(row, actor, verb)
        if verb is Verb.SUSPEND:
            changes = {"suspended_at": row.suspended_at or clock.now(), "deleted_after": None, **changes}
        with self.changing(row, actor, verb, ended=f"ended by the {ENDINGS[verb]}"):
            self.begin(row, actor, Change(verb), summary=reason, reason=reason, **changes)
        return row

    def operation_end(self, row: RowT, summary: str) -> None:
        """Ends a running operation, which neither succeeded nor failed; the worker on it will find that it was overtaken."""
        rows = self._operations.filter(**{self.noun: row}, finished_at__isnull=True)
        rows.update(finished_at=clock.now(), succeeded=None, summary=summary)

    def audit(
        self,
        row: RowT,
        actor: Actor,
        verb: str,
        *,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
    ) -> None:
        action = f"{self.noun}.{verb}"
        audit_record(actor=actor, action=action, target=row, project=row.project, before=before, after=after)

    @contextmanager
    def changing(
        self, row: RowT, actor: Actor, verb: str, *, ended: str = "", reason: str = ""
    ) -> Iterator[None]:
        """The start of an operation: `ended` is the result of a running one; audit and waking the reconciler follow."""
        before = {"state": row.state}
        if ended:
            self.operation_end(row, ended)
        yield
        self.audit(row, actor, verb, before=before, after={"reason": reason} if reason else None)
        self.wake(row)

    def announce(self, row: RowT) -> None:
        """Notifies the pages of the project and of operators, on commit."""
        groups = (events.project_group(row.project_id), events.OPERATORS_GROUP)
        events.publish(kind=self.noun, id=row.pk, groups=groups)

    def tell(self, row: RowT, *changes: ConditionChange) -> None:
        """Sets conditions on a locked row, and notifies pages if one of them changed."""
        if conditions_write(row, *changes):
            self.announce(row)

    def wake(self, row: RowT) -> None:
        """Notifies pages and starts the reconciler. The caller has set `due_at` in the same transaction."""
        self.announce(row)
        poke(self.task, str(row.pk))


def conditions_write(row: Provisioned, *changes: ConditionChange, drop: tuple[str, ...] = ()) -> bool:
    """Sets conditions on a locked row; True if one of them changed."""
    stored = {kind: held for kind, held in row.conditions.items() if kind not in drop}
    for change in changes:
        stored = condition_set(stored, now=clock.now(), **change)
    if stored == row.conditions:
        return False
    row.conditions = stored
    row.save(update_fields=["conditions"])
    return True
