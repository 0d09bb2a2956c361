"""`make test`, `make test-deep` and `make test-night`: see that everything the suite needs is here, and run a tier of it.

Python packages and the front end are installed by make; here come the browser, the FOCUS validator and the lab's programs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from deploy import focus_validator

ROOT = Path(__file__).resolve().parents[1]
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")  # below the folder where pytest runs
TESTS_FAILED = 1  # pytest's exit code; any other is no matter of single tests
MOST_AGAIN = 3
PANGO = ("libpango-1.0-0", "libpangoft2-1.0-0", "libharfbuzz-subset0", "fonts-dejavu-core")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.testing")
    parser.add_argument("command", choices=["prepare", "run"])
    parser.add_argument("-n", "--workers", default="2")
    parser.add_argument("--tier", choices=["first", "deep", "night", "all"], default="all")
    options, rest = parser.parse_known_args()
    os.chdir(ROOT)
    return prepare() if options.command == "prepare" else run(options.workers, options.tier, rest)


def prepare() -> int:
    found = (
        browser_missing(),
        pango_missing(),
        focus_validator.missing(),
        lab_missing("kubernetes"),
        lab_missing("cluster_api"),
        lab_missing("openstack"),
        lab_missing("helm"),
        of_root_missing("guest"),
        of_root_missing("node"),
        of_root_missing("prometheus"),
    )
    missing = [sentence for sentence in found if sentence]
    for sentence in missing:
        print(f"make test: {sentence}", file=sys.stderr)
    return 1 if missing else 0


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


def lab_missing(name: str) -> str | None:
    """Build or install what the lab runs, once; it is cached."""
    if name == "kubernetes" and os.environ.get("GPUAAS_LAB_KUBECONFIG"):
        return None
    done = subprocess.run([sys.executable, "-m", f"deploy.lab.{name}", "build"], check=False)
    if done.returncode:
        return f"what the {name} lab runs could not be made ready; see above"
    return None


def of_root_missing(name: str) -> str | None:
    """Machines that boot and pods that run need root; where we are not, their tests are skipped and say so."""
    return lab_missing(name) if os.geteuid() == 0 else None


def run(workers: str, tier: str, rest: list[str]) -> int:
    labs = subprocess.Popen([sys.executable, "-m", "tests.lab.start"]) if tier == "first" else None
    code = tried("-n", workers, "--dist", "loadgroup", "--tier", tier, *rest)
    if labs is not None:
        labs.wait()
    subprocess.run([sys.executable, "-m", "tests.lab.stop"], check=False)
    return code


def tried(*words: str) -> int:
    """The exit code of pytest. A few tests that fail beside others run once more, alone (decision 0079)."""
    LAST_FAILED.unlink(missing_ok=True)
    code = _pytest(*words)
    failed = failed_last()
    if code != TESTS_FAILED or not 0 < len(failed) <= MOST_AGAIN:
        return code
    print(f"\nOnce more, alone: {', '.join(failed)}", flush=True)
    code = _pytest("-n", "0", *failed)
    if code == 0:
        print("\nPassed only when they ran alone. Each has a fault of its own that has to be found:")
        print(*(f"  {name}" for name in failed), sep="\n", flush=True)
    return code


def failed_last() -> list[str]:
    """The names of the tests that failed in the last run, as pytest keeps them for `--lf`."""
    return sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def _pytest(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
