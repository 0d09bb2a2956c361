"""State machines as data: an enum of states with their look, and a table of allowed transitions.

A transition is a compare-and-swap on the row (`UPDATE … WHERE id AND state = old`) that writes its history row in the
same transaction. If another process has changed the row first, it raises `TransitionLost`: the caller's data is
stale.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import models, transaction

from gpuaas.core.errors import Conflict
from gpuaas.core.looks import Tone


class TransitionLost(Conflict):
    code = "state_changed"


@dataclass(frozen=True)
class Look:
    """How a state is shown everywhere: its label, its tone (color and glyph shape) and its icon."""

    label: str
    tone: Tone
    icon: str


StateT = TypeVar("StateT", bound=models.TextChoices)


class Machine(Generic[StateT]):
    """`edges` maps a state to the states that may follow; a state without edges is final."""

    def __init__(self, *, looks: dict[StateT, Look], edges: dict[StateT, frozenset[StateT]]) -> None:
        if set(looks) != set(edges):
            raise ValueError("every state needs a look and a row in the table")
        self.looks = looks
        self.edges = edges

    def allows(self, old: StateT, new: StateT) -> bool:
        return new in self.edges[old]

    def is_final(self, state: StateT) -> bool:
        return not self.edges[state]

    def transition(
        self,
        row: Any,
        *,
        to: StateT,
        history: type[models.Model],
        actor: str,
        reason: str = "",
        **changes: Any,
    ) -> None:
        """Moves `row` from the state in which it was loaded to `to`, writes `changes` with it, and its history row.

        `history` has the columns subject, old, new, actor, reason. `row` needs `state` and `version`; the version
        increases by one. Raises Conflict if the table has no such edge, TransitionLost if the row has changed.
        """
        old = type(to)(row.state)
        if not self.allows(old, to):
            raise Conflict(
                f"this cannot be done while it is {self.looks[old].label.lower()}",
                detail={"state": old.value, "to": to.value},
            )
        model = type(row)
        with transaction.atomic():
            moved = model._default_manager.filter(pk=row.pk, state=old).update(
                state=to, version=models.F("version") + 1, **changes
            )
            if moved != 1:
                raise TransitionLost("it was changed by somebody else at the same time; read it again")
            history._default_manager.create(
                subject_id=row.pk, old=old.value, new=to.value, actor=actor, reason=reason[:500]
            )
        row.refresh_from_db()


class TransitionRow(models.Model):
    """The common columns of history tables; the concrete model adds `subject`, a foreign key to the row."""

    old = models.CharField(max_length=32)
    new = models.CharField(max_length=32)
    actor = models.CharField(max_length=150)
    reason = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True
        ordering = ["pk"]
