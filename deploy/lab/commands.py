"""Programs of the system, run to their end."""

import os
import subprocess
from collections.abc import Mapping

from deploy.lab.errors import LabError

LIMIT_S = 600


def said(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """What it wrote. Raises LabError with its words where it failed."""
    done = subprocess.run(
        command,
        env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        words = " ".join(command[:6])
        raise LabError(
            f"{words} … failed ({done.returncode}): {(done.stderr or done.stdout).strip()[-2000:]}"
        )
    return done.stdout
