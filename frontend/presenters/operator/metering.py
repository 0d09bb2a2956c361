"""How the meter of a site does, and what comparing it with the site has found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frontend import formats
from frontend.components import Fact
from gpuaas.core.looks import Tone
from gpuaas.metering.models import CrossCheck, SiteMeter


@dataclass(frozen=True)
class Finding:
    name: str
    workspace: str
    what: str
    repaired: bool
    found_at: datetime

    @property
    def word(self) -> str:
        return "corrected" if self.repaired else "not corrected"


@dataclass(frozen=True)
class CrossChecked:
    at: datetime
    tone: Tone
    word: str
    compared: int
    findings: tuple[Finding, ...]


def meter_facts(meter: SiteMeter | None, *, now: datetime) -> tuple[Fact, ...]:
    if meter is None:
        return ()
    held = meter.claim_until is not None and meter.claim_until > now
    return (
        Fact("Run by", meter.holder if held else "no worker now"),
        Fact("Last confirmed", formats.ago(meter.last_proof_at, now)),
        Fact("Last change seen", formats.ago(meter.last_event_at, now)),
    )


def cross_checked(rows: Iterable[CrossCheck]) -> tuple[CrossChecked, ...]:
    return tuple(_checked(row) for row in rows)


def _checked(row: CrossCheck) -> CrossChecked:
    found = tuple(_finding(item, row.checked_at) for item in row.findings)
    count, left = len(found), sum(not item.repaired for item in found)
    word = f"{count} difference{'' if count == 1 else 's'}" if count else "Agrees"
    result = f"{word}, corrected" if count and not left else word
    return CrossChecked(row.checked_at, Tone.WARN if left else Tone.OK, result, row.compared, found)


def _finding(item: Mapping[str, Any], found_at: datetime) -> Finding:
    name, workspace, what = (str(item.get(key) or "") for key in ("name", "workspace", "what"))
    return Finding(name, workspace, what, repaired=bool(item.get("repaired")), found_at=found_at)
