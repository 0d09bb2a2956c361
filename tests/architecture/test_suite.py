"""What the suite itself promises to who works on it."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import BACK_ENDS, LONG, SHARED, WALKS, part_of, placed

ROOT = Path(__file__).resolve().parents[2]


def test_a_pure_test_starts_no_server(tmp_path: Path) -> None:
    """It is over in seconds on a machine where nothing runs; the first test that reads a table starts PostgreSQL. Its properties are
    tried with few examples."""
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
    assert " passed, 2 deselected" in done.stdout
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


# In one process, as after the first time most of it is there already.
COLLECT = """
import contextlib, io, json, pytest
lists = {}
for tier in ("check", "fast", "deep", "all"):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "--tier", tier])
    assert code == 0, output.getvalue()
    lists[tier] = [line for line in output.getvalue().splitlines() if line.startswith("tests/")]
print(json.dumps(lists))
"""


def test_the_tiers_together_are_the_suite() -> None:
    """Every node id is in one of them, and none in two."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-c", COLLECT]
    done = subprocess.run(command, cwd=ROOT, env=ours, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lists = json.loads(done.stdout.splitlines()[-1])
    assert len(set(lists["all"])) == len(lists["all"]) > 1_000
    assert sorted(lists["check"] + lists["fast"] + lists["deep"]) == sorted(lists["all"])


def test_places_that_the_tiers_name_exist() -> None:
    """A file that moved would change its tier, and nobody would know why."""
    for place in (*LONG, *(start for start, _ in WALKS)):
        path, _, function = place.partition("[")[0].partition("::")
        assert (ROOT / path).exists(), place
        assert not function or f"def {function}" in (ROOT / path).read_text("utf-8"), place


STARTS_A_LAB = re.compile(r"\bLab\(|control_plane\(tmp")


def test_a_fixture_that_starts_a_lab_is_known_to_the_tiers() -> None:
    """Else its tests would be of the fast tier."""
    unknown = [
        f"{place}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "fixture" in (text := path.read_text("utf-8")) and STARTS_A_LAB.search(text)
        for name in lab_fixtures(text)
        if name not in {*BACK_ENDS, "lab"}
        and not (place := str(path.relative_to(ROOT))).startswith(
            tuple(where for where in LONG if LONG[where])
        )
    ]
    assert unknown == []


def lab_fixtures(text: str) -> list[str]:
    """Names of the fixtures of a module that make a lab of their own."""
    return [
        function.name
        for function in fixtures_of(text)
        if STARTS_A_LAB.search(ast.get_source_segment(text, function) or "")
    ]


def fixtures_of(text: str) -> list[ast.FunctionDef]:
    return [
        function
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        and any("fixture" in ast.unparse(each) for each in function.decorator_list)
    ]


def test_a_name_that_the_tiers_know_is_one_fixture() -> None:
    """Another of that name asks for a back end too. Else a test of the sandbox would be deep because of what its fixture is called."""
    known = {*BACK_ENDS, *SHARED}
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        place = str(path.relative_to(ROOT))
        of_a_lab = place.startswith("tests/lab/") and path.name.startswith(("conftest", "test_"))
        for function in () if of_a_lab else fixtures_of(path.read_text("utf-8")):
            if function.name in known and not known & {each.arg for each in function.args.args}:
                places.setdefault(function.name, []).append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
    assert {"lab", "door", "openstack_lab"} <= set(places)


QUOTA = "tests/contracts/test_quota.py::test_what_was_not_bought_is_refused"


@pytest.mark.parametrize(
    ("nodeid", "asked", "rigs", "room"),
    [
        ("tests/billing/test_money.py::test_a_price", ["db"], [], ""),
        ("tests/architecture/test_house.py::test_a_floor", ["lab"], [], ""),
        ("tests/clusters/test_crash.py::test_creation", ["db"], [], "clusters"),
        ("tests/billing/test_any.py::test_new", ["db", "openstack_lab"], [], "openstack"),
        ("tests/billing/test_any.py::test_new", ["lab", "own_lab"], [], "kubernetes"),
        ("tests/billing/test_any.py::test_new", ["lab"], [], "kubernetes"),
        ("tests/billing/test_any.py::test_new", ["chromium"], [], "browser"),
        ("tests/billing/test_any.py::test_new", ["lab", "virtual_lab"], [], "vcluster"),
        (f"{QUOTA}[sandbox]", ["rig"], ["sandbox"], ""),
        (f"{QUOTA}[kubernetes]", ["rig", "lab"], ["kubernetes"], ""),
        (f"{QUOTA}[openstack]", ["rig", "openstack"], ["openstack"], "openstack"),
        (
            "tests/contracts/clusters/test_life.py::test_it",
            ["openstack"],
            ["openstack"],
            "openstack-clusters",
        ),
        ("tests/billing/test_any.py::test_new", ["own_openstack_lab"], [], "openstack-own"),
        ("tests/frontend/pages/test_crawler.py::test_it", ["chromium"], [], "browser-crawler"),
        (f"{QUOTA}[real-pods]", ["rig", "lab"], ["real-pods"], "node"),
        (
            "tests/contracts/clusters/test_life.py::test_it",
            ["openstack"],
            ["cluster-api-openstack"],
            "cluster-api",
        ),
        (f"{QUOTA}[a-new-one]", ["rig"], ["a-new-one"], "a-new-one"),
        ("tests/contracts/test_quota.py::test_a_new_one[sandbox]", ["rig"], ["sandbox"], ""),
        ("tests/contracts/test_quota.py::test_a_new_one[kubernetes]", ["rig"], ["kubernetes"], "kubernetes"),
        ("tests/contracts/test_health.py::test_sick[kubernetes]", ["rig"], ["kubernetes"], "kubernetes"),
        ("tests/providers/baremetal/test_csr_api.py::test_it", ["bare_metal_lab"], [], "bare-metal"),
        ("tests/lab/node/test_life.py::test_it", ["lab"], [], "node"),
    ],
)
def test_the_tier_follows_from_what_a_test_asks_for(
    nodeid: str, asked: list[str], rigs: list[str], room: str
) -> None:
    assert placed(nodeid, asked, rigs).room == room


def test_the_cloud_of_a_room_has_a_process_of_its_own() -> None:
    assert (
        part_of("cluster-api", ["lab", "openstack"])
        != part_of("cluster-api", ["lab", "cluster_api_lab"])
        != ""
    )
    assert part_of("openstack", ["openstack"]) == ""
