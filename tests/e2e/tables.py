"""The tables of a demo, copied from a database that was migrated before: a second or two, where migrating takes half a minute.

`python -m tests.e2e.tables URL` in the environment of the demo that gets them. That `migrate` makes them of nothing is shown by
`test_demo.py`, which starts a demo by its own command.
"""

import subprocess
import sys

from deploy.embedded.environment import demo_environment
from deploy.embedded.postgres import PROGRAMS


def main(source: str) -> None:
    target = demo_environment().database_url
    dumped = [f"{PROGRAMS}/pg_dump", "--no-owner", source]
    with subprocess.Popen(dumped, stdout=subprocess.PIPE) as dump:
        words = [f"{PROGRAMS}/psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null"]
        subprocess.run([*words, target], stdin=dump.stdout, check=True)
    if dump.returncode:
        sys.exit(f"pg_dump ended with {dump.returncode}")


if __name__ == "__main__":
    main(sys.argv[1])
