"""How long the tests of the fast tier take, and that none gets slow unnoticed.

Seconds are those of the machine of the budget: they are divided by how much slower a fixed loop of Python is here and now, so
that a slow machine or a busy one changes little. `make durations` writes the longest to tests/durations.json, by test, file and
fixture; each run of the tier writes all of them to test-results. `make test` fails only where something takes several times what it
may, as no figure of a busy machine is exact.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("durations.json")
LAST = Path(__file__).parents[1] / "test-results" / FILE.name  # of the last run, whatever it was
SLOW = LAST.with_name("slow.json")  # its tests that took too long; deploy.testing runs them once more, alone
TEST_S, SUM_S = 5.0, 1_200.0  # one test; all of them, on two cores ten minutes
SLACK = 3  # times the budget, before a run of `make test` fails
LOOP_S = 0.0043  # what the loop takes on the machine of the budget
LOOPS = 8
EVERY = 100  # tests between two looks at the machine, and after each slow one
# What may take longer, by the beginning of its name: seconds, and why it is in the fast tier all the same.
EXEMPT = {
    "tests/api/test_lists.py": (15, "every list of the API at several sizes, in one world"),
    "tests/api/test_schemathesis.py": (10, "each operation of one room, three times"),
    "tests/backup/test_drill.py": (12, "the whole portal is lost and restored"),
    "tests/billing/test_settled_months.py": (
        10,
        "two months are closed 25 times, prices set before and after",
    ),
    "tests/contracts/": (12, "the real API server keeps its word on a token for ten seconds"),
    "tests/deploy/test_package.py": (12, "the first test builds the wheel and installs it"),
    "tests/e2e/test_main_job.py": (40, "the main job by the whole portal on the real API server"),
    "tests/frontend/figures/test_figures.py": (
        15,
        "every figure in every place where it stands, in one scene",
    ),
    "tests/frontend/operator/test_doors.py": (10, "every page of an operator as each kind of stranger"),
    "tests/frontend/pages/test_browser.py::test_from_request": (
        15,
        "one walk through the browser, to the invoice",
    ),
    "tests/frontend/pages/test_shown.py": (15, "every link and form of every page as one reader"),
    "tests/providers/kubernetes/": (
        10,
        "the first test of a file makes its workspace on the real API server",
    ),
    "tests/web/test_traces.py": (10, "starts a web process"),
}
WHOLE = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}  # a run that came to its end
SLOWNESS, FIXTURES = "slowness", "fixtures"


def slowness() -> float:
    """How much slower than the machine of the budget this one is at the moment."""
    began = time.perf_counter()
    for _ in range(LOOPS):
        sum(number * number for number in range(150_000))
    return (time.perf_counter() - began) / LOOPS / LOOP_S


class InProcess:
    """In each process that runs tests: tells with each test how slow the machine is, and what its fixtures took."""

    def __init__(self) -> None:
        self.slowness = slowness()
        self.tests = 0
        self.fixtures: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            if (took := time.perf_counter() - began) > 0.01:
                self.fixtures[fixturedef.argname] += took

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            self.tests += 1
            if self.tests % EVERY == 0:
                self.slowness = slowness()
            item.user_properties.append((SLOWNESS, self.slowness))
            item.user_properties.append((FIXTURES, dict(self.fixtures)))
            self.fixtures.clear()


class Gathered:
    """Of all processes, in the one that hands out the tests."""

    def __init__(self) -> None:
        self.raw: dict[str, float] = defaultdict(float)
        self.tests: dict[str, float] = {}
        self.fixtures: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if getattr(report, "context", None) is not None:
            return  # of a subtest, whose time is in that of the test
        self.raw[report.nodeid] += report.duration
        told: dict[str, Any] = dict(report.user_properties)
        if report.when == "teardown" and SLOWNESS in told:
            by: float = told[SLOWNESS]
            self.tests[report.nodeid] = self.raw[report.nodeid] / by
            for name, took in told[FIXTURES].items():
                self.fixtures[name] += took / by

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus not in WHOLE or session.config.getoption("tier") != "fast":
            return
        LAST.parent.mkdir(exist_ok=True)
        # a run of named tests, such as one of those that failed, says nothing about the tier
        files = (
            {} if any("::" in each for each in session.config.args) else {LAST: self.summary(tests=0, sums=0)}
        )
        if session.config.getoption("durations_keep"):
            files[FILE] = self.summary()
        for file, found in files.items():
            file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        SLOW.write_text(json.dumps(too_long(self.tests, slack=SLACK)), encoding="utf-8")
        if over(self.tests, slack=SLACK):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        if config.getoption("tier") != "fast" or not self.tests:
            return
        total, raw = sum(self.tests.values()), sum(self.raw.values())
        terminalreporter.section("time of the tests (tests/durations.py)")
        terminalreporter.write_line(
            f"{total:,.0f} s of {SUM_S:,.0f} s on the machine of the budget; "
            f"{raw:,.0f} s here, {raw / total:.1f} times as long"
        )
        for sentence in over(self.tests, slack=SLACK):
            terminalreporter.write_line(f"Too slow for the fast tier: {sentence}")

    def summary(self, *, tests: float = 1, sums: float = 5) -> dict[str, Any]:
        """What takes as many seconds and more, by name: tests, and the sums of files and fixtures."""
        files: dict[str, float] = defaultdict(float)
        for nodeid, took in self.tests.items():
            files[nodeid.partition("::")[0]] += took
        return {
            "sum": round(sum(self.tests.values())),
            "tests": len(self.tests),
            "slow": longest(self.tests, at_least=tests),
            "files": longest(files, at_least=sums),
            "fixtures": longest(self.fixtures, at_least=sums),
        }


def kept() -> dict[str, Any]:
    """What `make durations` wrote last."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def longest(took: dict[str, float], *, at_least: float) -> dict[str, float]:
    found = sorted(took.items(), key=lambda pair: -pair[1])
    return {name: round(seconds, 2) for name, seconds in found if seconds >= at_least}


def limit_of(name: str) -> float:
    return next((limit for start, (limit, _) in EXEMPT.items() if name.startswith(start)), TEST_S)


def too_long(took: dict[str, float], *, slack: float = 1) -> list[str]:
    return [name for name, seconds in took.items() if seconds > slack * limit_of(name)]


def over(took: dict[str, float], *, slack: float = 1) -> list[str]:
    """Sentences about what takes more than `slack` times its budget."""
    slow = [
        f"{name} took {took[name]:.1f} s of the {limit_of(name):.0f} s that it may take"
        for name in too_long(took, slack=slack)
    ]
    total = sum(took.values())
    if total > slack * SUM_S:
        slow.append(f"all together took {total:,.0f} s of {SUM_S:,.0f}")
    return slow


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-keep", action="store_true", help=f"write {FILE.name} anew")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        config.pluginmanager.register(Gathered(), "durations-gathered")
    if is_worker or not config.getoption("numprocesses", None):
        config.pluginmanager.register(InProcess(), "durations-in-process")
