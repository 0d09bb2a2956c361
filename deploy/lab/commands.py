"""Programs of others, run to their end."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from deploy.lab.errors import LabError

LIMIT_S = 600


def output_of(
    *command: str,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    given: str = "",
    limit: float = LIMIT_S,
) -> str:
    """What it wrote, run in `folder` and with `given` as its input. Raises LabError with its words where it failed or took
    too long."""
    words = " ".join(command[:10])
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            cwd=folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{words} … took more than {limit:.0f} s") from error
    if done.returncode:
        raise LabError(
            f"{words} … failed ({done.returncode}):\n{(done.stdout + done.stderr).strip()[-3000:]}"
        )
    return done.stdout
