"""What the suite itself promises to who works on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import (
    CONTRACT,
    DEEP,
    EACH_KILL,
    EACH_OUTAGE,
    FIRST,
    KILLS,
    MANY,
    MINUTES,
    NIGHT,
    NIGHT_CONTRACT,
    ON_CLOUD,
    ON_SITE,
    OUTAGES,
    REAL_PODS,
    WALK,
    tier_of,
)

ROOT = Path(__file__).resolve().parents[2]


def test_a_pure_test_starts_no_server(tmp_path: Path) -> None:
    """It is over in seconds on a machine where nothing runs; the first test that reads a table starts PostgreSQL."""
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "GPUAAS_TEST"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core/test_values.py"],
        cwd=ROOT,
        env={**ours, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert not (tmp_path / "gpuaas-test-services").exists()


def test_labs_can_be_left_out() -> None:
    """A test that asks for a lab by a fixture of a fixture is left out, too; the others of its file are not."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"),
            *(
                "-m",
                "not lab and not openstack and not browser",
                "tests/frontend/operator/test_cluster_imports.py",
            ),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "::test_a_driver_that_has_nothing_to_tell" in done.stdout, done.stdout + done.stderr
    assert "::test_dropped" not in done.stdout


def test_places_of_the_other_tiers_exist() -> None:
    """A file that moved would be run by the first tier again, and nobody would know why it is slow."""
    for place in (*DEEP, *NIGHT):
        path, _, function = place.partition("[")[0].partition("::")
        assert (ROOT / path).exists(), place
        assert not function or f"def {function}" in (ROOT / path).read_text("utf-8"), place


def test_walks_of_the_contract_exist() -> None:
    text = "".join(path.read_text("utf-8") for path in (ROOT / "tests/contracts/clusters").glob("test_*.py"))
    names = {*WALK, *(name for names in NIGHT_CONTRACT.values() for name in names)}
    assert [name for name in names if f"def {name}(" not in text] == []


LIFE = "tests/contracts/clusters/test_life.py"
BURST = "tests/clusters/test_burst_crash.py::test_scaling_out_and_back_survives_a_kill_anywhere"
SERVICES = "tests/providers/openstack/test_chaos.py::test_services_go_and_come_back_under_load"


@pytest.mark.parametrize(
    ("nodeid", "tier", "reason"),
    [
        ("tests/billing/test_money.py::test_a_price", "first", ""),
        ("tests/clusters/test_crash.py::test_creation", "deep", KILLS),
        ("tests/providers/openstack/test_drift.py::test_repair", "deep", ON_SITE),
        ("tests/providers/openstack/test_workspace.py::test_made", "first", ""),
        (f"{SERVICES}[two]", "deep", OUTAGES),
        (f"{SERVICES}[all]", "night", EACH_OUTAGE),
        (f"{BURST}[3]", "deep", KILLS),
        (f"{BURST}[1]", "night", EACH_KILL),
        ("tests/contracts/test_quota.py::test_one_more[openstack]", "deep", CONTRACT),
        ("tests/contracts/test_quota.py::test_one_more[kubernetes]", "first", ""),
        ("tests/contracts/test_quota.py::test_one_more[real-pods]", "night", REAL_PODS),
        (
            "tests/contracts/test_steps.py::test_an_unknown_step_is_refused_for_good[openstack]",
            "deep",
            CONTRACT,
        ),
        ("tests/contracts/test_usage.py::test_a_run[openstack]", "night", MINUTES),
        ("tests/contracts/test_usage.py::test_a_run[kubernetes]", "first", ""),
        (f"{LIFE}::test_an_unknown_step_is_refused_for_good[openstack]", "night", MINUTES),
        ("tests/contracts/test_quota.py::test_without_a_site", "first", ""),
        (f"{LIFE}::{WALK[0]}[cluster-api]", "first", ""),
        (f"{LIFE}::{WALK[0]}[cluster-api-openstack]", "night", ON_CLOUD),
        (f"{LIFE}::{MANY[0]}[cluster-api]", "night", EACH_KILL),
        (f"{LIFE}::{MANY[0]}[sandbox]", "first", ""),
        (f"{LIFE}::test_another[cluster-api]", "deep", CONTRACT),
    ],
)
def test_the_longest_place_decides(nodeid: str, tier: str, reason: str) -> None:
    assert tier_of(nodeid) == (tier, reason)


def test_the_contract_asks_the_rigs_that_the_first_tier_names() -> None:
    rigs = (ROOT / "tests/contracts/conftest.py").read_text("utf-8")
    assert [rig for rig in FIRST if f'"{rig.removeprefix("[")}"' not in rigs] == []
