"""Programs from Go modules that are pinned in a folder of ours."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError

BUILD_LIMIT_S = 45 * 60
PROGRESS_EVERY_S = 10
Report = Callable[[str], None]


def environment() -> dict[str, str]:
    return {**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"}


def go(*words: str, folder: Path, limit: float = BUILD_LIMIT_S) -> str:
    """What `go` wrote, asked in a folder of pins."""
    return output_of("go", *words, environment=environment(), folder=folder, limit=limit)


def run_build(flags: Sequence[str], packages: Sequence[str], source: Path, report: Report) -> None:
    """Shows how far it is: go names each package on a line of its own as it compiles it."""
    total = len(go("list", "-deps", *packages, folder=source).splitlines())
    report(f"building up to {total} packages, once")
    last_lines: list[str] = []
    begun = shown = time.monotonic()
    with subprocess.Popen(
        ["go", "build", "-v", "-trimpath", *flags, *packages],
        cwd=source,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as build:
        watchdog = threading.Timer(BUILD_LIMIT_S, build.kill)
        watchdog.start()
        try:
            for done, line in enumerate(build.stderr or (), start=1):
                last_lines = [*last_lines[-29:], line]
                if time.monotonic() - shown >= PROGRESS_EVERY_S:
                    shown = time.monotonic()
                    percent = min(99, 100 * done // max(total, 1))
                    report(f"  {percent:2d}% ({done} of up to {total} packages, {shown - begun:.0f} s)")
        finally:
            watchdog.cancel()
    if build.returncode:
        raise LabError("the build failed:\n" + "".join(last_lines))
