"""The results that are committed: what was measured, on which machine, and whether a new run is much worse.

Ratios are compared, never times: the floor is measured in the same run, so another machine or a busy one moves both.
"""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import fill

from tests.bench.table import Measured
from tests.durations import slowness

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "bench" / "results.json"
PAGE = ROOT / "docs" / "performance.md"
LOOKS = 9
KEPT = 2 / 3  # of the committed ratio; below it a run fails
HEAD = """# Performance

Every figure stands beside a floor: the least that the same machine needs for the same work, measured in the same run.
A ratio of 1.00 is the floor itself. `make bench` measures (twenty minutes on a quiet machine), `make bench-compare`
fails where a ratio fell by more than a third of the one below, and `make bench-keep` writes this page anew. Times of
machines differ: the line below each heading says how slow the machine was before and after the measurement.
"""

Results = dict[str, list[Measured]]


def looks() -> list[float]:
    """How slow the machine is at the moment, several times."""
    return [slowness() for _ in range(LOOKS)]


def slow(seen: Sequence[float]) -> str:
    """How slow it was, before and after: the least, the middle and the most, as a shared machine changes within seconds."""
    least, most = min(seen), max(seen)
    return (
        f"a loop of Python took {least:.1f} to {most:.1f} times, in the middle {statistics.median(seen):.1f} times, "
        "what it takes on the machine of the suite's budget"
    )


def machine() -> str:
    """Processor, cores and memory, as a reader would name them."""
    cpuinfo = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [
        line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB"


def load(path: Path = RESULTS) -> dict[str, tuple[str, list[Measured]]]:
    """By bench: the machine and day, and the rows; empty where nothing was kept yet."""
    if not path.exists():
        return {}
    kept = json.loads(path.read_text())
    return {name: (one["measured"], [Measured(**row) for row in one["rows"]]) for name, one in kept.items()}


def keep(measured: Results, *, where: str, path: Path = RESULTS, page: Path = PAGE) -> None:
    """Writes what was measured; benches that did not run keep their results."""
    found = {**load(path), **{name: (where, rows) for name, rows in measured.items()}}
    content = {
        name: {"measured": at, "rows": [asdict(row) for row in rows]} for name, (at, rows) in found.items()
    }
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    page.write_text(HEAD + "".join(_section(name, *found[name]) for name in sorted(found)))


def worse(measured: Results, *, path: Path = RESULTS) -> list[str]:
    """A sentence for each ratio that fell by more than a third, and for each row that is no longer measured."""
    found = []
    for name, (_, before) in load(path).items():
        if name not in measured:
            continue
        now = {row.what: row for row in measured[name]}
        for row in before:
            if row.what not in now:
                found.append(f"{name}: {row.what} is not measured any more.")
            elif now[row.what].ratio < row.ratio * KEPT:
                found.append(
                    f"{name}: the ratio of {row.what} fell from {row.ratio:.3f} to {now[row.what].ratio:.3f}."
                )
    return found


def _section(name: str, where: str, rows: list[Measured]) -> str:
    lines = [
        f"\n## {name}\n\n{fill(where, 120)}\n",
        "| What | Ours | Floor | Ratio | Floor is |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        figures = f"{row.ours:,.1f} {row.unit} | {row.floor:,.1f} {row.unit} | {row.ratio:.3f}"
        lines.append(f"| {row.what} | {figures} | {row.floor_is} |")
    notes = [fill(f"- {row.what}: {row.note}", 120, subsequent_indent="  ") for row in rows if row.note]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"
