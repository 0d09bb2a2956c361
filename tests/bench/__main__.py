"""`make bench`: every figure beside a floor measured in the same run, on a database of its own,
which is emptied between two benches.

`python -m tests.bench lists rating` runs some of them; `--compare` fails where a ratio fell by more than a third of the
committed one, `--keep` commits what was measured to docs/performance.md (results.py).
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.results import Results
    from tests.bench.table import Measured

BENCHES = (
    "reserve",
    "lists",
    "ready",
    "seen",
    "clusters",
    "claims",
    "events",
    "sweep",
    "warden",
    "queues",
    "door",
    "closing",
    "rating",
    "ingest",
    "growth",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("names", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--compare", action="store_true", help="fail where a ratio fell by more than a third")
    parser.add_argument("--keep", action="store_true", help="write the results to docs/performance.md")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHES):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started is stopped then, too
    from tests.bench.results import keep, looks, machine, slow, worse
    from tests.bench.table import table

    before = looks()
    measured = _measured(options.names or BENCHES)

    where = f"{machine()}, {datetime.now(tz=UTC):%Y-%m-%d}; {slow([*before, *looks()])}"
    print(table([row for rows in measured.values() for row in rows]), where, sep="\n")
    fallen = worse(measured) if options.compare else []
    print("\n".join(fallen), file=sys.stderr)
    if options.keep:
        keep(measured, where=where)
    return 1 if fallen else 0


def _measured(names: Sequence[str]) -> "Results":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.test")
    os.environ["GPUAAS_TEST_DB_SUFFIX"] = f"_bench_{os.getpid()}"
    import django

    django.setup()
    from django.test.utils import setup_databases, teardown_databases

    # not setup_test_environment: it has every template copy its context for tests to look at, a fifth of a page's time
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        return {name: _one(name) for name in names}
    finally:
        teardown_databases(databases, verbosity=0)


def _one(name: str) -> "list[Measured]":
    """Nothing of one bench is there for the next."""
    from django.core.management import call_command

    try:
        return list(importlib.import_module(f"tests.bench.{name}").measure())
    finally:
        call_command("flush", interactive=False, verbosity=0)


if __name__ == "__main__":
    sys.exit(main())
