"""`make bench`: every figure beside a floor measured in the same run, on a database of its own.

`python -m tests.bench reserve lists ready clusters claims events sweep warden closing rating ingest` runs some of them.
"""

import importlib
import os
import sys

BENCHES = (
    "reserve",
    "lists",
    "ready",
    "clusters",
    "claims",
    "events",
    "sweep",
    "warden",
    "closing",
    "rating",
    "ingest",
)


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.test")
    os.environ["GPUAAS_TEST_DB_SUFFIX"] = f"_bench_{os.getpid()}"
    import django

    django.setup()
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    from tests.bench.table import table

    chosen = sys.argv[1:] or list(BENCHES)
    unknown = set(chosen) - set(BENCHES)
    if unknown:
        print(f"no such bench: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        measured = [
            row for name in chosen for row in importlib.import_module(f"tests.bench.{name}").measure()
        ]
    finally:
        teardown_databases(databases, verbosity=0)
    print(table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
