"""The tiers of one suite: `make check` reads the sources, `make test` answers in minutes, `make test-deep` is the rest, room by room.

A test's tier follows from what it asks for. Whoever asks for a back end of its own, directly, through another fixture or by
being parametrized with a driver, is deep, and the back end is its room. The fast tier shares one Kubernetes API server and a
browser; both are deep too, but for the walks that WALKS names, so that a new test of them cannot slow everybody down by being
forgotten. What takes long for another reason stands in LONG with that reason, and its room is its folder.

`pytest path` runs whatever it names, of both tiers; of a property that is the test of 25 examples, unless the other is named.
The closing lines of `make test` count what it left to which room, and why.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.examples import MANY

CHECK, FAST, DEEP, NAMED = "check", "fast", "deep", "named"
# Tests that read the sources of the whole project: one process has all of them, so that each file is parsed once.
SOURCES = "tests/architecture/"
# Fixtures that start something for the tests that ask for them, and the room that this is; the first one asked for decides.
# tests/architecture/test_suite.py finds a fixture that starts a lab and is not here.
BACK_ENDS = {
    "capi_tenancy": "cluster-api",
    "cluster_api_openstack_lab": "cluster-api",
    "cluster_api_lab": "cluster-api",
    "topology": "cluster-api",
    "machine_lab": "guest",
    "own_openstack_lab": "openstack-own",  # a cloud that its tests break or set up otherwise
    "openstack_lab": "openstack",
    "virtual_lab": "vcluster",
    "kueue_lab": "kueue",
    "trainer_lab": "trainer",
    "node_lab": "node",
    "bare_metal_lab": "bare-metal",
    "hub": "bare-metal",
    "openshift_lab": "openshift",
    "door": "environments",
    "own_lab": "kubernetes",
    "fit_lab": "kubernetes",
    "unguarded": "kubernetes",
    "every_way": "kubernetes",
    "openstack": "openstack",  # the mark
}
# The rigs of the contracts, by the parameter that chooses them. A rig that is not here is a room of its own name.
RIGS = ("rig", "yard")
SHARED_RIGS = {"sandbox": "", "kubernetes": "kubernetes"}
RIG_ROOMS = {
    "real-pods": "node",
    "cluster-api-openstack": "cluster-api",
    "openshift-bare-metal": "bare-metal",
}
# What of a room takes as long as all the rest of it, and is a room of its own: clusters of machines that boot by the dozen, and a
# browser that follows every link.
PARTED = {
    "openstack": (
        "openstack-clusters",
        ("tests/clusters/", "tests/contracts/clusters/", "tests/providers/openstack_clusters/"),
    ),
    "browser": ("browser-crawler", ("tests/frontend/pages/test_crawler.py",)),
}
# What the tests of the fast tier share, by fixture or mark.
SHARED = {"lab": "kubernetes", "chromium": "browser", "browser": "browser"}

API_SERVER = "the real Kubernetes API server, beyond a walk of each verb and the escapes of a member"
IN_BROWSER = "pages in a real browser, beyond one walk"
ONE_BACK_END = "one more back end"
# What of the shared back ends the fast tier has: the beginning of a node id, and how it ends. Of the contract each verb once: the
# sandbox has all of it in this tier, and the API server in its room.
WALKS = (
    *(
        (f"tests/contracts/test_{verb}", "[kubernetes]")
        for verb in (
            "access.py::test_what_is_issued_lives_no_longer_than_asked",
            "access.py::test_revoked_it_is_dead_within_seconds",
            "adoption.py::test_it_goes_on_as_it_was_and_is_held",
            "drift.py::test_a_limit_that_somebody_raised",
            "quota.py::test_all_at_once_is_refused_too",
            "quota.py::test_what_was_bought_runs_and_one_more_is_refused",
            "quota.py::test_what_was_not_bought_is_refused",
            "quota.py::test_a_larger_workspace_takes_more_and_a_smaller_evicts_nobody",
            "steps.py::test_ensure_ends_alike_wherever_it_was_interrupted",
            "steps.py::test_who_leaves_is_out_and_who_comes_is_in",
            "steps.py::test_release_takes_everything_and_may_be_repeated",
            "suspend.py::test_asleep_nobody_can_start_anything",
            "suspend.py::test_what_ran_comes_back",
            "usage.py::test_a_run_is_told_with_its_seconds",
            "usage.py::test_nothing_is_told_of_other_namespaces",
        )
    ),
    ("tests/e2e/test_main_job.py", ""),
    ("tests/frontend/pages/test_browser.py::test_from_request_to_the_invoice", ""),
    ("tests/frontend/pages/test_browser_keys.py::test_a_page_a_menu_and_a_dialog", ""),
    ("tests/providers/kubernetes/test_escapes.py::test_refused[", "-edit]"),
    ("tests/providers/kubernetes/test_escapes.py::test_the_table_is_long_enough", ""),
    ("tests/providers/kubernetes/test_escapes.py::test_words_are_never_those_of_a_crash", ""),
)

KILLS = "a kill at every boundary, of which the fast tier takes three of each life"
OUTAGES = "services that go away"
PROPERTIES = "200 examples of each property, of which the fast tier tries 25"
MAKERS = "tokens of each scope by everybody who may make one, of which the fast tier has those of the owner"
GENERATED = "requests generated by the thousand, of which the fast tier makes one of each kind"
LOADS = "load, size and rounds of a race"
EVERY_PAGE = "every page of a kind"
EVERY_READER = "every page for every reader, of whom the fast tier has the owner, a member and the auditor"
EVERY_STATE = "every page in every state of a workspace, of which the fast tier has those in use and asleep"
BUILDS = "a build of a minute or more that nothing else needs"
PROCESSES = "processes that are started one after the other"
SERVERS = "web processes that are started one after the other"
WATCHED = "what Prometheus itself says of rules, boards and metrics"
SCRIPTED = (
    "the boot script run by bash, of which the fast tier has a whole boot and what a failure keeps to itself"
)
INSTALLED = "what is in the wheel and what its commands refuse, of which the fast tier has their list and a web process"
GUESSES = "a day of guessing"
MIGRATED = "migrations back, and forward again in two databases"
AUDITED = "every locked package asked for at a service of advisories"
# By where a test is: the longest place that its node id begins with decides; "" leaves it to its fixtures.
LONG = {
    "tests/api/test_concurrency.py::test_64": LOADS,
    "tests/api/test_permissions.py::test_the_answers_are_the_table[every-": MAKERS,
    "tests/api/test_schemathesis.py::test_operations[20-": GENERATED,
    "tests/backup/test_killed.py": KILLS,
    "tests/backup/test_point_in_time.py": OUTAGES,
    "tests/backup/test_restore.py::test_migrations_of_a_later_release": MIGRATED,
    "tests/backup/test_servers.py": OUTAGES,
    "tests/backup/test_usage.py": PROCESSES,
    "tests/billing/test_archive_killed.py": KILLS,
    "tests/billing/test_closing_at_once.py": LOADS,
    "tests/billing/test_credits_at_once.py": LOADS,
    "tests/billing/test_focus.py::test_memory_does_not_grow_with_the_rows": LOADS,
    "tests/billing/test_focus_official.py": LOADS,
    "tests/billing/test_keeping.py::test_kept_and_running_are_rated_from_nothing": LOADS,
    "tests/catalog/test_lanes.py::test_workers_of_their_own": PROCESSES,
    "tests/clusters/test_boot_script.py": SCRIPTED,
    "tests/clusters/test_boot_script.py::test_every_stage_is_told_in_its_turn": "",
    "tests/clusters/test_boot_script.py::test_a_failure_is_told_with_its_last_lines": "",
    "tests/clusters/test_burst_crash.py": KILLS,
    "tests/clusters/test_crash.py": KILLS,
    "tests/clusters/test_warm_races.py": LOADS,
    "tests/core/test_production.py": PROCESSES,
    "tests/core/test_production.py::test_safe_values_start": "",
    "tests/core/test_production.py::test_an_unsafe_value_stops_the_start": "",
    "tests/core/test_scrape.py::test_a_worker_tells_what_its_children_did": PROCESSES,
    "tests/core/test_scrape.py::test_meter_and_scheduler_tell_of_themselves": PROCESSES,
    "tests/deploy/image/test_image.py": BUILDS,
    "tests/deploy/helm/": BUILDS,
    "tests/deploy/test_audit.py": AUDITED,
    "tests/deploy/test_demo.py": PROCESSES,
    "tests/deploy/test_demo.py::test_what_fails_at_once_ends_the_demo": "",
    "tests/deploy/test_package.py": INSTALLED,
    "tests/deploy/test_package.py::test_it_says_its_version_and_its_commands": "",
    "tests/deploy/test_package.py::test_each_process_is_alive_until_it_is_told_to_end[web]": "",
    "tests/deploy/test_proxy.py": SERVERS,
    "tests/e2e/": OUTAGES,
    "tests/e2e/test_main_job.py": "",
    "tests/frontend/pages/test_headers.py::test_pages_of": EVERY_PAGE,
    "tests/frontend/pages/test_odd_input.py": EVERY_PAGE,
    "tests/frontend/pages/test_shown.py::test_nor_in_another_state": EVERY_PAGE,
    "tests/frontend/pages/test_shown.py::test_nothing_is_shown_that_is_then_refused[": EVERY_READER,
    "tests/frontend/pages/test_shown.py::test_nothing_is_shown_that_is_then_refused[alice]": "",
    "tests/frontend/pages/test_shown.py::test_nothing_is_shown_that_is_then_refused[bob]": "",
    "tests/frontend/pages/test_shown.py::test_nothing_is_shown_that_is_then_refused[ada]": "",
    "tests/frontend/pages/test_unscripted.py::test_every_dialog_of_a_project_has_a_link_that_opens_it[": EVERY_STATE,
    "tests/frontend/pages/test_unscripted.py::test_every_dialog_of_a_project_has_a_link_that_opens_it[ready-alice]": "",
    "tests/frontend/pages/test_unscripted.py::test_every_dialog_of_a_project_has_a_link_that_opens_it[suspended-bob]": "",
    "tests/metering/test_process.py": KILLS,
    "tests/metering/test_warden.py::test_the_meter_process_hosts_it": PROCESSES,
    "tests/providers/clusterapi/test_class_objects.py": BUILDS,
    "tests/reliability/": OUTAGES,
    "tests/reliability/test_audit.py": "",
    "tests/system/test_boards.py": WATCHED,
    "tests/system/test_prometheus.py": WATCHED,
    "tests/tenants/test_tries.py::test_a_day_of_guessing": GUESSES,
    "tests/tenants/test_tries.py::test_made_up_names_push_nothing_out": GUESSES,
    "tests/web/test_inherited.py": SERVERS,
    "tests/web/test_clients.py": SERVERS,
    "tests/web/test_provider.py": SERVERS,
    "tests/web/test_schemathesis_nobody.py": GENERATED,
    "tests/web/test_streams.py": LOADS,
    "tests/workspaces/machines/test_crash.py": KILLS,
    "tests/workspaces/test_crash.py": KILLS,
}
# Folders of one back end: their room, where no fixture says another.
FOLDERS = {
    "tests/lab/cluster_api/": "cluster-api",
    "tests/lab/kueue/": "kueue",
    "tests/lab/trainer/": "trainer",
    "tests/lab/node/": "node",
    "tests/lab/openstack/": "openstack",
    "tests/lab/": "kubernetes",
    "tests/providers/baremetal/": "bare-metal",
    "tests/providers/clusterapi/": "cluster-api",
    "tests/providers/openshift/": "openshift",
    "tests/providers/vcluster/": "vcluster",
}
# Rooms with one lab for the whole machine, of which one part serves a process of its own: whoever asks for one of these.
PARTS = {"cluster-api": {"capi_tenancy", "cluster_api_openstack_lab", "openstack"}}
LEFT = pytest.StashKey[Counter[tuple[str, str]]]()
SENT = "left_to_the_deep_tier"


@dataclass(frozen=True)
class Place:
    """room: of the deep tier, "" in the others. reason: why it is not fast."""

    room: str
    reason: str
    is_check: bool = False

    @property
    def tier(self) -> str:
        if self.is_check:
            return CHECK
        return DEEP if self.room else FAST


IN_FAST, IN_CHECK = Place("", ""), Place("", "", is_check=True)


def place_of(item: pytest.Item) -> Place:
    params = getattr(getattr(item, "callspec", None), "params", {})
    place = placed(item.nodeid, asked_by(item), [params[name] for name in RIGS if name in params])
    is_long = _has_many(item) and place.tier != DEEP
    return Place(_folder(item.nodeid, ""), PROPERTIES) if is_long else place


def _has_many(item: pytest.Item) -> bool:
    params: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("examples") == MANY


def asked_by(item: pytest.Item) -> set[str]:
    """Names of its fixtures and marks."""
    return {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}


def part_of(room: str, asked: Iterable[str]) -> str:
    """The process of `--dist loadgroup` that has the test, by its part of the room's lab; "" where the room has no parts."""
    if room not in PARTS:
        return ""
    return f"{room}-{'own' if PARTS[room] & set(asked) else 'shared'}"


def placed(nodeid: str, asked: Iterable[str], rigs: Iterable[str] = ()) -> Place:
    """asked: names of the fixtures, direct or not, and of the marks. rigs: the drivers that it is parametrized with."""
    place = _placed(nodeid, asked, rigs)
    room, starts = PARTED.get(place.room, ("", ()))
    return Place(room, place.reason) if nodeid.startswith(starts) else place


def _placed(nodeid: str, asked: Iterable[str], rigs: Iterable[str]) -> Place:
    if nodeid.startswith(SOURCES):
        return IN_CHECK
    names, rigs = set(asked), list(rigs)
    if room := next((RIG_ROOMS[rig] for rig in rigs if rig in RIG_ROOMS), ""):
        return Place(room, ONE_BACK_END)
    if room := next((room for name, room in BACK_ENDS.items() if name in names), ""):
        return Place(room, ONE_BACK_END)
    shared = next((room for name, room in SHARED.items() if name in names), "")
    for rig in rigs:
        if rig not in SHARED_RIGS:
            return Place(rig, ONE_BACK_END)
        shared = SHARED_RIGS[rig] or shared
    if reason := _longest(nodeid):
        return Place(_folder(nodeid, shared), reason)
    if shared and not any(nodeid.startswith(start) and nodeid.endswith(end) for start, end in WALKS):
        return Place(_folder(nodeid, shared), IN_BROWSER if shared == "browser" else API_SERVER)
    return IN_FAST


def _folder(nodeid: str, shared: str) -> str:
    """`billing` of tests/billing/test_rates.py, unless something that it shares says more."""
    return (
        next((room for folder, room in FOLDERS.items() if nodeid.startswith(folder)), "")
        or shared
        or nodeid.split("/")[1].partition(".")[0]
    )


def _longest(nodeid: str) -> str:
    places = [place for place in LONG if nodeid.startswith(place)]
    return LONG[max(places, key=len)] if places else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=[NAMED, CHECK, FAST, DEEP, "all"],
        default=NAMED,
        help="default: both, with few examples",
    )
    parser.addoption("--room", default="", help="of the deep tier alone: the tests of one room")
    parser.addoption(
        "--rooms", action="store_true", help="collect, and print how many tests each deep room has"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Before xdist looks for the marks; it writes them behind the names, which `deploy/testing.py` takes away again."""
    if item.config.getoption("loadgroup", False) and (part := part_of(place_of(item).room, asked_by(item))):
        item.add_marker(pytest.mark.xdist_group(part))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier, room = config.getoption("tier"), config.getoption("room")
    places = {id(item): place_of(item) for item in items}
    if tier == NAMED:
        few = [item for item in items if not _has_many(item)]
        config.hook.pytest_deselected(items=[item for item in items if few and _has_many(item)])
        items[:] = few or items
    elif tier != "all":
        left = [item for item in items if not _chosen(places[id(item)], tier, room)]
        config.stash[LEFT] = counted = Counter(
            (place.room, place.reason)
            for item in left
            if (place := places[id(item)]).tier not in {tier, CHECK}
        )
        if (output := getattr(config, "workeroutput", None)) is not None:
            output[SENT] = [(*place, count) for place, count in counted.items()]
        if left:
            config.hook.pytest_deselected(items=left)
        gone = {id(item) for item in left}
        items[:] = [item for item in items if id(item) not in gone]
    # the shared API server and the browser are made ready while the tests that need neither run
    items.sort(key=_needs_lab)


def _chosen(place: Place, tier: str, room: str) -> bool:
    return place.tier == tier and (not room or place.room == room)


def _needs_lab(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("lab", "browser"))


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("rooms"):
        found = Counter(place_of(item).room for item in session.items)
        print(*(f"ROOM {room} {count}" for room, count in sorted(found.items()) if room), sep="\n")  # noqa: T201


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Each process has collected the same; what one of them has left stands for all."""
    if (sent := getattr(node, "workeroutput", {}).get(SENT)) is not None:
        node.config.stash[LEFT] = Counter({(room, reason): count for room, reason, count in sent})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left = config.stash.get(LEFT, None)
    if not left or config.getoption("tier") != FAST:
        return
    terminalreporter.section(f"left to make test-deep: {sum(left.values()):,} tests")
    for (room, reason), count in sorted(left.items()):
        terminalreporter.line(f"{count:6,}  ROOM={room:<18} {reason}")
