"""Reserved pools as operators see them: where each stands, what is idle of it now, and who else is still in it."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from billing.selectors.idle import Idle
from frontend import formats
from frontend.forms.reservations import ChangeForm, EndForm
from gpuaas.core.looks import Tone
from quotas.models import PoolReservation
from quotas.pools import Guest, PoolStanding, pool_standing

LOOKS = {
    PoolStanding.WAITS: (Tone.WAIT, "upcoming"),
    PoolStanding.IN_FORCE: (Tone.OK, "in force"),
    PoolStanding.OVER: (Tone.OFF, "over"),
}


@dataclass(frozen=True)
class ReservationRow:
    """`idle` and `others` in words, empty where there is nothing to say. `forms`: of its dialogs; a bound one was refused. None
    once it is over."""

    row: PoolReservation
    tone: Tone
    word: str
    idle: str
    others: str
    forms: tuple[ChangeForm, EndForm] | tuple[()]


def guests_words(guests: Sequence[Guest]) -> str:
    """`Protein Folding of Biology holds 2`, for each."""
    return "; ".join(
        f"{guest.project_name} of {guest.organization_name} holds {guest.amount}" for guest in guests
    )


def idle_words(idle: Idle | None, currency: str) -> str:
    if idle is None:
        return ""
    cost = "no price yet" if idle.per_hour is None else f"{formats.price(idle.per_hour, currency)} per hour"
    return f"{idle.gpus} idle, {cost}"


def reservation_rows(
    rows: Iterable[PoolReservation],
    *,
    now: datetime,
    idle: Mapping[uuid.UUID, Idle],
    guests: Mapping[tuple[uuid.UUID, uuid.UUID], Sequence[Guest]],
    currencies: Mapping[uuid.UUID, str],
    refused: EndForm | ChangeForm | None = None,
) -> list[ReservationRow]:
    shown = []
    for row in rows:
        standing = pool_standing(reservation=row, now=now)
        tone, word = LOOKS[standing]
        owner = row.project.organization_id
        others = () if standing is PoolStanding.OVER else guests.get((row.pool_id, owner), ())
        words = idle_words(idle.get(row.pk), currencies.get(owner, ""))
        mine = refused if refused is not None and refused.of == row.pk else None
        end = mine if isinstance(mine, EndForm) else EndForm(of=row)
        change = mine if isinstance(mine, ChangeForm) else ChangeForm(of=row)
        forms = () if standing is PoolStanding.OVER else (change, end)
        shown.append(ReservationRow(row, tone, word, words, guests_words(others), forms))
    return shown
