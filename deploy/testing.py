"""`make test` and `make test-deep`: see that what a tier or a room needs is here, run it, and stop what it started.

Python packages and the front end are installed by make. Browsers, libraries and the programs of the labs come here, each only
for whoever needs it.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy import focus_validator
from deploy.lab import owners

ROOT = Path(__file__).resolve().parents[1]
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")  # below the folder where pytest runs
RESULTS = Path("test-results")
LAST_SLOW = RESULTS / "slow.json"  # tests/durations.py
TESTS_FAILED = 1  # of the exit codes of pytest
MOST_AGAIN = 3
INTERRUPTED_S = 60
PANGO = ("libpango-1.0-0", "libpangoft2-1.0-0", "libharfbuzz-subset0", "fonts-dejavu-core")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LABS = (
    *("kubernetes", "cluster_api", "openstack", "helm", "guest", "kueue", "trainer", "node", "prometheus"),
    "environments",
)
OF_ROOT = {"guest", "node", "prometheus"}  # where we are not root their tests are skipped and say so
# What a deep room needs beside a browser and Pango; a lab's programs are built once and cached.
NEEDS = {
    "bare-metal": ("kubernetes",),
    "billing": ("focus",),
    "cluster-api": ("kubernetes", "cluster_api", "openstack"),
    "clusters": ("kubernetes",),
    "deploy": ("kubernetes", "helm"),
    "e2e": ("kubernetes",),
    "environments": ("ssh", "environments"),
    "guest": ("openstack", "guest"),
    "kubernetes": ("kubernetes", "helm"),
    "kueue": ("kubernetes", "kueue"),
    "node": ("kubernetes", "helm", "node", "ssh"),
    "openshift": ("kubernetes",),
    "openstack": ("openstack",),
    "openstack-clusters": ("openstack",),
    "openstack-own": ("openstack",),
    "system": ("prometheus",),
    "trainer": ("kubernetes", "trainer"),
    "vcluster": ("kubernetes",),
}
# Rooms whose back end is one for the whole machine, or is started by a package: one process has all of their tests.
ALONE = {"bare-metal", "e2e", "guest", "kueue", "node", "openshift", "reliability", "trainer", "vcluster"}
# Rooms of which each part has one (PARTS of tests/tiers.py), and what xdist then writes behind the names of their tests.
IN_PARTS = {"cluster-api"}
GROUP = re.compile(rf"@({'|'.join(IN_PARTS)})-\w+$")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.testing")
    parser.add_argument("tier", choices=["fast", "deep"])
    parser.add_argument("-n", "--workers", default="2")
    parser.add_argument(
        "--room", default="", help="of the deep tier; several with spaces between; none is all"
    )
    options, rest = parser.parse_known_args()
    # a shell that starts us in the background ignores Ctrl-C for us, and so for all that the tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(ROOT)
    owners.own()
    if options.tier == "fast":
        return fast(options.workers, rest)
    return deep(options.room.split(), options.workers, rest)


def fast(workers: str, rest: Sequence[str]) -> int:
    """The labs' programs are built and started beside the tests that need none of them."""
    if not prepared("browser", "pango"):
        return 1
    labs = subprocess.Popen([sys.executable, "-m", "tests.lab.start"])
    try:
        return tried("-n", workers, "--dist", "worksteal", "--tier=fast", *rest)
    finally:
        labs.terminate()
        labs.wait()
        stop_labs()


@dataclass(frozen=True)
class Row:
    """One room's part of the table. code: of pytest, or 1 where it could not be made ready."""

    room: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    code: int


def deep(chosen: Sequence[str], workers: str, rest: Sequence[str]) -> int:
    known = rooms()
    if unknown := sorted(set(chosen) - set(known)):
        print(f"make test-deep: there is no room {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    rows = [in_room(room, workers, rest) for room in chosen or known]
    print(*table(rows), sep="\n", flush=True)
    return max(row.code for row in rows)


def rooms() -> list[str]:
    """Those that have tests, as the tests themselves tell it (tests/tiers.py)."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "--tier=deep", "--rooms"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ROOM ")]


def in_room(room: str, workers: str, rest: Sequence[str]) -> Row:
    print(f"\nROOM={room}", flush=True)
    began = time.monotonic()
    if not prepared("browser", "pango", *NEEDS.get(room, ())):
        return Row(room, 0, 0, 0, time.monotonic() - began, 1)
    RESULTS.mkdir(exist_ok=True)
    report = RESULTS / f"{room}.xml"
    report.unlink(missing_ok=True)
    try:
        code = tried(*spread(room, workers), "--tier=deep", f"--room={room}", f"--junitxml={report}", *rest)
    finally:
        stop_labs()
    return Row(room, *counted(report), time.monotonic() - began, code)


def spread(room: str, workers: str) -> tuple[str, ...]:
    if room in ALONE:
        return ("-n", "1")
    dist = "loadgroup" if room in IN_PARTS else "loadfile"
    # else files of few tests come last, and of these some take minutes
    return ("-n", workers, "--dist", dist, "--no-loadscope-reorder")


def counted(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped of a JUnit file; nothing where pytest did not come to write it."""
    if not report.exists():
        return 0, 0, 0
    cases = list(ET.parse(report).iter("testcase"))
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    return len(cases) - failed - skipped, failed, skipped


def table(rows: Sequence[Row]) -> list[str]:
    lines = [f"\n{'room':<18}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    for row in rows:
        mark = "" if row.code == 0 else f"  exit {row.code}"
        lines.append(f"{row.room:<18}{row.passed:>8}{row.failed:>8}{row.skipped:>9}{row.seconds:>9.0f}{mark}")
    return lines


def prepared(*names: str) -> bool:
    """Whether all of them are here now; what is missing is said on stderr."""
    missing = [sentence for name in dict.fromkeys(names) if (sentence := READY[name]())]
    for sentence in missing:
        print(f"make test: {sentence}", file=sys.stderr)
    return not missing


def browser() -> str | None:
    return os.environ.get("GPUAAS_CHROMIUM") or next(
        (path for name in BROWSERS if (path := shutil.which(name))), None
    )


def apt_install(what: str, *packages: str) -> None:
    """Where we may: root on a Debian-like machine."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing {what}", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", *words], env=environment, check=False, stdout=subprocess.DEVNULL)


def pango_missing() -> str | None:
    """What WeasyPrint draws PDF files with; asked in a process of its own, since a failed import stays failed."""
    asked = [sys.executable, "-c", "import weasyprint"]
    if subprocess.run(asked, check=False, capture_output=True).returncode:
        apt_install("Pango", *PANGO)
    if subprocess.run(asked, check=False, capture_output=True).returncode:
        return f"the tests of PDF files need Pango (Debian: apt install {' '.join(PANGO)})"
    return None


def browser_missing() -> str | None:
    """Install the system's Chromium where we may, else say what to install."""
    if browser() is None:
        apt_install("Chromium", "chromium")
    if browser() is None:
        return (
            "the browser tests need Chromium (Debian: apt install chromium), or GPUAAS_CHROMIUM=/path/to/it"
        )
    return None


def ssh_missing() -> str | None:
    """OpenSSH's client, with scp and sftp."""
    if not shutil.which("sftp"):
        apt_install("OpenSSH's client", "openssh-client")
    if not shutil.which("sftp"):
        return "the tests of SSH need OpenSSH's client (Debian: apt install openssh-client)"
    return None


def lab_missing(name: str) -> str | None:
    """Build or install what the lab runs, once; it is cached."""
    if name in OF_ROOT and os.geteuid() != 0:
        return None
    if name == "kubernetes" and os.environ.get("GPUAAS_LAB_KUBECONFIG"):
        return None
    done = subprocess.run([sys.executable, "-m", f"deploy.lab.{name}", "build"], check=False)
    if done.returncode:
        return f"what the {name} lab runs could not be made ready; see above"
    return None


def _lab(name: str) -> Callable[[], str | None]:
    return lambda: lab_missing(name)


READY: dict[str, Callable[[], str | None]] = {
    "browser": browser_missing,
    "pango": pango_missing,
    "focus": focus_validator.missing,
    "ssh": ssh_missing,
    **{name: _lab(name) for name in LABS},
}


def stop_labs() -> None:
    subprocess.run([sys.executable, "-m", "tests.lab.stop"], check=False)


def tried(*words: str) -> int:
    """The exit code of pytest. A few tests that fail or take too long beside others run once more, alone (decision 0079)."""
    for last in (LAST_FAILED, LAST_SLOW):
        last.unlink(missing_ok=True)
    code = _pytest(*words)
    again = sorted({*kept(LAST_FAILED), *kept(LAST_SLOW)})
    if code != TESTS_FAILED or not 0 < len(again) <= MOST_AGAIN:
        return code
    print(f"\nOnce more, alone: {', '.join(again)}", flush=True)
    code = _pytest("-n", "0", *(word for word in words if word.startswith("--tier=")), *again)
    if code == 0:
        print("\nPassed only when they ran alone. Each has a fault of its own that has to be found:")
        print(*(f"  {name}" for name in again), sep="\n", flush=True)
    return code


def kept(last: Path) -> list[str]:
    """The names of tests that the last run has left there: pytest those that failed, for `--lf`."""
    found = json.loads(last.read_text()) if last.exists() else {}
    return [GROUP.sub("", name) for name in found]


def _pytest(*words: str) -> int:
    """Ctrl-C reaches it too: it is given the time to say what it had done."""
    process = subprocess.Popen([sys.executable, "-m", "pytest", "-q", *words])
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait(INTERRUPTED_S)
        raise


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
