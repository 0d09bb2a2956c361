"""The units, as systemd itself reads them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.embedded.environment import ROOT
from tests.deploy.installed import taken_by_the_portal

FOLDER = ROOT / "deploy" / "systemd"
SERVICES = sorted(FOLDER.glob("*.service"))
EXPOSED = 15  # tenths, of 100; systemd calls it OK up to 49
pytestmark = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


def analyzed(*words: str) -> list[str]:
    """What systemd complains about; that the portal is not installed at the place of the units is no complaint."""
    done = subprocess.run(
        ["systemd-analyze", *words],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{FOLDER}:", "SYSTEMD_LOG_LEVEL": "warning"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stdout + done.stderr).splitlines() if done.returncode or "verify" in words else []
    return [line for line in lines if line and "is not executable: No such file" not in line]


@pytest.mark.parametrize(
    "unit",
    [*SERVICES, *(FOLDER / name for name in ("gpuaas.target", "gpuaas-backup.timer", "gpuaas-web.socket"))],
    ids=lambda path: path.name,
)
def test_systemd_takes_the_unit(unit: Path) -> None:
    assert analyzed("verify", "--man=no", str(unit)) == []


@pytest.mark.parametrize("unit", SERVICES, ids=lambda path: path.name)
def test_a_process_may_do_no_more_than_it_must(unit: Path) -> None:
    assert analyzed("security", "--offline=true", f"--threshold={EXPOSED}", str(unit)) == []


def test_the_target_has_every_long_running_process() -> None:
    wanted = re.search(r"^Wants=(.*)$", (FOLDER / "gpuaas.target").read_text(), re.MULTILINE)
    assert wanted
    assert set(wanted[1].split()) == {path.name for path in SERVICES} - {
        "gpuaas-migrate.service",
        "gpuaas-backup.service",
    }


def test_each_command_is_one_that_the_program_takes() -> None:
    for unit in SERVICES:
        (command,) = re.findall(
            r"^ExecStart=/opt/gpuaas/bin/gpuaas-portal (.*)$", unit.read_text(), re.MULTILINE
        )
        taken_by_the_portal(command.split())


def test_web_trusts_the_host_on_which_alone_it_listens() -> None:
    unit = (FOLDER / "gpuaas-web.service").read_text()
    assert "Environment=GPUAAS_TRUSTED_PROXIES=127.0.0.1,::1\n" in unit
    assert "Requires=gpuaas-web.socket\n" in unit
    assert "ListenStream=127.0.0.1:8000\n" in (FOLDER / "gpuaas-web.socket").read_text()
