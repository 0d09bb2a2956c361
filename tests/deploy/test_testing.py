"""What `make test` and `make test-deep` do around pytest: few failures are tried once more alone, rooms are counted."""

from pathlib import Path

import pytest

from deploy import testing
from tests.tiers import PARTS

# each test fails until the file of its name is there
CASES = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("name", {names})
def test_it(name):
    seen = Path(name)
    first = not seen.exists()
    seen.touch()
    assert not first

def test_another():
    with open("ran", "a") as file:
        file.write(".")
    assert {sound}

def test_in_parts(subtests):
    with subtests.test("a part"):
        seen = Path("part")
        first = not seen.exists()
        seen.touch()
        assert not first
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    return tmp_path


def tried(folder: Path, names: list[str], *, sound: bool = True) -> int:
    (folder / "test_cases.py").write_text(CASES.format(names=names, sound=sound))
    return testing.tried("-n", "0")


def test_a_few_are_tried_again_and_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert tried(folder, ["a", "b"]) == 0
    shown = capfd.readouterr().out
    assert "Once more, alone: test_cases.py::test_in_parts, test_cases.py::test_it[a]" in shown
    assert shown.rstrip().endswith("test_cases.py::test_it[b]")
    assert (folder / "ran").read_text() == "."


# of the first run one test is too slow, in the fast tier
CLOCK = """
import json
from pathlib import Path
import pytest

def pytest_addoption(parser):
    parser.addoption("--tier", default="all")

def pytest_sessionfinish(session):
    first = not Path("timed").exists()
    Path("timed").touch()
    slow = ["test_cases.py::test_another"] if first and session.config.getoption("tier") == "fast" else []
    Path("test-results").mkdir(exist_ok=True)
    Path("test-results/slow.json").write_text(json.dumps(slow))
    if slow:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
"""


def test_what_took_too_long_is_tried_again_too(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "conftest.py").write_text(CLOCK)
    (folder / "part").touch()
    (folder / "test_cases.py").write_text(CASES.format(names=[], sound=True))
    assert testing.tried("-n", "0", "--tier=fast") == 0
    assert "Once more, alone: test_cases.py::test_another\n" in capfd.readouterr().out
    assert (folder / "ran").read_text() == ".."


def test_what_fails_alone_fails(folder: Path) -> None:
    assert tried(folder, ["a"], sound=False) == testing.TESTS_FAILED
    assert (folder / "ran").read_text() == ".."


def test_many_are_not_tried_again_nor_those_of_an_earlier_run(folder: Path) -> None:
    assert tried(folder, ["a", "b", "c"]) == testing.TESTS_FAILED
    assert (folder / "ran").read_text() == "."
    assert tried(folder, []) == 0
    assert testing.kept(testing.LAST_FAILED) == []


JUNIT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><error/></testcase>
<testcase name="d"><skipped/></testcase><testcase name="e"/>
</testsuite></testsuites>"""


def test_a_room_is_a_line_of_the_table(tmp_path: Path) -> None:
    report = tmp_path / "room.xml"
    report.write_text(JUNIT)
    assert testing.counted(report) == (2, 2, 1)
    assert testing.counted(tmp_path / "none.xml") == (0, 0, 0)
    rows = [testing.Row("billing", 2, 2, 1, 61.4, 1), testing.Row("vcluster", 7, 0, 0, 5.0, 0)]
    head, *lines = testing.table(rows)
    assert head.split() == ["room", "passed", "failed", "skipped", "seconds"]
    assert [line.split() for line in lines] == [
        ["billing", "2", "2", "1", "61", "exit", "1"],
        ["vcluster", "7", "0", "0", "5"],
    ]


def test_a_room_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "rooms", lambda: ["billing", "node"])
    assert testing.deep(["cloud"], "2", []) == 2
    assert "there is no room cloud; there are billing, node" in capfd.readouterr().out


def test_a_room_that_is_called_like_a_folder_is_run_as_a_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`billing` alone would be for pytest the product's folder, whose tests have none of our options."""
    asked: list[str] = []
    monkeypatch.setattr(testing, "prepared", lambda *names: True)
    monkeypatch.setattr(testing, "stop_labs", lambda: None)

    def tried(*words: str) -> int:
        asked.extend(words)
        return 0

    monkeypatch.setattr(testing, "tried", tried)
    assert testing.in_room("billing", "2", []).code == 0
    assert "--room=billing" in asked
    assert "billing" not in asked


def test_the_parts_of_a_room_have_a_process_each(tmp_path: Path) -> None:
    assert PARTS.keys() == testing.IN_PARTS
    in_order = "--no-loadscope-reorder"
    assert testing.spread("cluster-api", "2") == ("-n", "2", "--dist", "loadgroup", in_order)
    assert testing.spread("billing", "2") == ("-n", "2", "--dist", "loadfile", in_order)
    assert testing.spread("node", "2") == ("-n", "1")
    last = tmp_path / "lastfailed"
    last.write_text(
        '{"tests/a.py::test_it[cluster-api]@cluster-api-shared": true, "tests/b.py::test_it": true}'
    )
    assert testing.kept(last) == ["tests/a.py::test_it[cluster-api]", "tests/b.py::test_it"]


def test_each_need_can_be_made_ready() -> None:
    assert {name for needs in testing.NEEDS.values() for name in needs} <= testing.READY.keys()
