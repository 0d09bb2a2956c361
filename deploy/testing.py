"""`make test`: see that everything the suite needs is here, run it, and say in the closing lines what was skipped and why.

Python packages and the front end are installed by make; here come the browser, the FOCUS validator and the
lab's programs.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from deploy import focus_validator

ROOT = Path(__file__).resolve().parents[1]
PANGO = ("libpango-1.0-0", "libpangoft2-1.0-0", "libharfbuzz-subset0", "fonts-dejavu-core")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.testing")
    parser.add_argument("command", choices=["prepare", "run"])
    parser.add_argument("-n", "--workers", default="2")
    options, rest = parser.parse_known_args()
    os.chdir(ROOT)
    return prepare() if options.command == "prepare" else run(options.workers, rest)


def prepare() -> int:
    found = (
        browser_missing(),
        pango_missing(),
        focus_validator.missing(),
        lab_missing("kubernetes"),
        lab_missing("cluster_api"),
        lab_missing("openstack"),
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


def run(workers: str, rest: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-n", workers, "--dist", "loadgroup", "-q", *rest]
    done = subprocess.run(command, check=False)
    subprocess.run([sys.executable, "-m", "tests.lab.stop"], check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
