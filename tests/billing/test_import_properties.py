"""Any sequence of imports, with overlaps allowed or not, and take-backs leaves exactly the batches that stand, beside what the
portal metered; what is refused is what a count of pairs says."""

from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.files import Refused, files_import, import_take_back
from gpuaas.catalog.models import Flavor
from gpuaas.metering.imports import Overlap
from gpuaas.metering.models import Meter, UsageImport, UsageImportSum, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc, workspace_make
from tests.billing.test_import import NOW, file_of, row

pytestmark = pytest.mark.django_db
BOUNDED = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ORIGIN = utc("2026-10-31 20:00:00")  # three hours before November in Berlin
METERS = ("gpu_held", "gpu_allocated")


@dataclass(frozen=True)
class Used:
    """Hours since ORIGIN."""

    name: int
    place: tuple[str, str]  # workspace, meter
    start: int
    lasts: int
    quantity: int

    @property
    def is_empty(self) -> bool:
        return not self.lasts or not self.quantity

    @property
    def unit_seconds(self) -> int:
        return self.quantity * self.lasts * 3600

    def meets(self, other: "Used") -> bool:
        apart = self.start >= other.start + other.lasts or other.start >= self.start + self.lasts
        return self.place == other.place and not apart

    @property
    def told(self) -> str:
        start, end = ORIGIN + timedelta(hours=self.start), ORIGIN + timedelta(hours=self.start + self.lasts)
        times = {"start": f"{start:%Y-%m-%dT%H:%M:%SZ}", "end": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        workspace, meter = self.place
        return row(f"r{self.name}", workspace=workspace, meter=meter, quantity=str(self.quantity), **times)


places = st.sampled_from(list(product(("one", "two"), METERS)))
used = st.builds(Used, st.integers(0, 9), places, st.integers(0, 9), st.integers(0, 3), st.integers(0, 2))
imports = st.tuples(
    st.lists(used, min_size=1, max_size=5, unique_by=lambda each: each.name),
    st.sets(st.sampled_from(list(Overlap))) | st.just(set(Overlap)),
    st.booleans(),
)
steps = st.lists(imports | st.integers(0, 5), min_size=1, max_size=8)


class World:
    """What should be there: rows of the batches that stand, by their names."""

    def __init__(self, metered: list[Used]) -> None:
        self.metered = metered
        self.standing: dict[int, list[Used]] = {}

    @property
    def known(self) -> dict[int, Used]:
        return {each.name: each for rows in self.standing.values() for each in rows}

    def wanted(self, rows: list[Used]) -> tuple[set[int], set[tuple[int, Overlap]], list[Used]]:
        """Lines with an id of another meaning; overlaps by the names of new rows; what would be written."""
        known = self.known
        fine = [each for each in rows if not each.is_empty]
        wrong = {each.name for each in fine if known.get(each.name, each) != each}
        fresh = [each for each in fine if each.name not in known]
        others = [each for name, each in known.items() if name not in {each.name for each in fine}]
        twice = set()
        for at, each in enumerate(fine):
            for other in fine[:at]:
                if each.meets(other) and (each in fresh or other in fresh):
                    later = max((each, other), key=lambda row: (row.start, fine.index(row)))
                    new = later if later in fresh else other if later is each else each
                    twice.add((new.name, Overlap.FILE))
        twice |= {(each.name, Overlap.IMPORTS) for each in fresh for other in others if each.meets(other)}
        twice |= {
            (each.name, Overlap.METERED) for each in fresh for other in self.metered if each.meets(other)
        }
        return wrong, twice, fresh


def summed() -> dict[str, int]:
    found = {"there": 0}
    for each in UsageInterval.objects.all():
        assert each.ended_at is not None
        key = each.consumer_name if each.batch_id else "there"
        found[key] = found.get(key, 0) + each.quantity * int(
            (each.ended_at - each.started_at).total_seconds()
        )
    return found


@given(history=steps, metered=st.lists(used, max_size=3))
@BOUNDED
def test_the_batches_that_stand_are_what_is_there(
    project: Project, h100: Flavor, alice: User, tmp_path: Path, history: list[Any], metered: list[Used]
) -> None:
    UsageImportSum.objects.all().delete()
    UsageInterval.objects.all().delete()
    UsageImport.objects.all().delete()
    spaces = {name: _workspace(project, h100, alice, name) for name in ("one", "two")}
    metered = [each for each in metered if not each.is_empty]
    for each in metered:
        start, end = ORIGIN + timedelta(hours=each.start), ORIGIN + timedelta(hours=each.start + each.lasts)
        workspace, meter = each.place
        interval_make(spaces[workspace], h100, start, end, quantity=each.quantity, meter=Meter(meter))
    world, made = World(metered), list[UsageImport]()
    for step in history:
        if isinstance(step, int):
            if step < len(made):
                import_take_back(actor=SYSTEM, batch=made[step])
                world.standing.pop(step, None)
        else:
            rows, allowed, check = step
            _import(world, made, tmp_path, rows, allowed, check)
        wanted = {f"r{name}": each.unit_seconds for name, each in world.known.items()}
        assert summed() == {"there": sum(each.unit_seconds for each in metered), **wanted}
    for number, batch in enumerate(made):
        batch.refresh_from_db()
        assert (batch.taken_back_at is None) == (number in world.standing)


def _import(
    world: World, made: list[UsageImport], folder: Path, rows: list[Used], allowed: set[Overlap], check: bool
) -> None:
    wrong, twice, fresh = world.wanted(rows)
    told = {(name, kind) for name, kind in twice if kind not in allowed}
    file = file_of(folder, *(each.told for each in rows))
    asked: dict[str, Any] = {"actor": SYSTEM, "usage": file, "overlaps": allowed, "now": NOW, "check": check}
    if wrong or told:
        with pytest.raises(Refused) as found:
            files_import(**asked)
        lines = sorted({rows[each.line - 2].name for each in found.value.rows})
        assert lines == sorted(wrong or {name for name, _ in told})
        assert found.value.overlaps == (0 if wrong else len(told))
        return
    done = files_import(**asked)
    assert (done.written, sum(each.unit_seconds for each in done.sums)) == (
        len(fresh),
        sum(each.unit_seconds for each in fresh),
    )
    there = sum(each.besides_unit_seconds for each in done.sums)
    assert there <= sum(each.unit_seconds for each in [*world.metered, *world.known.values()])
    if done.batch is not None and not check:
        world.standing[len(made)] = fresh
        made.append(done.batch)


def _workspace(project: Project, h100: Flavor, alice: User, name: str) -> Workspace:
    return Workspace.objects.filter(name=name).first() or workspace_make(project, h100, alice, name=name)
