"""The watch tells what others change, within seconds, and is silent about the portal itself and about mere status.

On a control plane of its own: it listens to the nodes and rules of the whole site, changes some, and counts what it hears.
"""

import threading
import time
from collections.abc import Iterator

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.providers.base import SiteChange
from gpuaas.providers.kubeapi import guards, names
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, in_the_end, until
from tests.providers.kubernetes.conftest import ALICE, Room, forget, make_room, make_spec
from tests.providers.kubernetes.test_drift import DELETED, EDITOR, EDITS, edit, path_of, repair

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("own-lab")]


class Ear:
    """Listens in a thread of its own, window after window, as the watcher does."""

    def __init__(self, driver: KubernetesDriver, cursor: str = "", seconds: int = 8) -> None:
        self.heard: list[SiteChange] = []
        self.error: Exception | None = None
        self.cursor = cursor
        self._driver, self._seconds = driver, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        try:
            while not self._stop.is_set():
                for change in self._driver.watch_changes(self.cursor, seconds=self._seconds):
                    self.cursor = change.cursor or self.cursor
                    self.heard.append(change)
        except Exception as error:  # noqa: BLE001  shown by `close`
            self.error = error

    def of(self, name: str) -> int:
        return sum(change.workspace_name == name and not change.proof for change in self.heard)

    def proofs(self) -> int:
        return sum(change.proof for change in self.heard)

    def close(self) -> str:
        self._stop.set()
        self._thread.join(timeout=30)
        assert not self._thread.is_alive()
        assert self.error is None, self.error
        return self.cursor


@pytest.fixture(scope="module")
def lab(own_lab: Lab) -> LabSite:
    return LabSite(own_lab.kubeconfig)


@pytest.fixture(scope="module")
def ear(lab: LabSite) -> Iterator[Ear]:
    """Has begun: it knows what is there."""
    made = Ear(lab.driver())
    until(lambda: made.proofs() > 0, "the watch is alive")
    yield made
    made.close()


@pytest.fixture(scope="module")
def watched(lab: LabSite, ear: Ear) -> Iterator[Room]:
    spec = make_spec()
    yield make_room(lab, spec)
    forget(lab, spec)


def test_the_portals_own_work_is_no_news(watched: Room, ear: Ear) -> None:
    """Made, ensured again, and used: pods move the quota's status, the controllers write their own."""
    repair(watched)
    for name in ("one", "two"):
        watched.admin.create(watched.path("pods"), pod(name, {"nvidia.com/gpu": "1"}))
    watched.run_to("two", "Running")
    watched.admin.delete(f"{watched.path('pods')}/one", gracePeriodSeconds="0")
    proofs = ear.proofs()
    until(lambda: ear.proofs() > proofs + 1, "time has passed")
    assert ear.of(watched.spec.external_name) == 0


@pytest.mark.parametrize(
    ("which", "change"), [(e[0], e[1]) for e in EDITS], ids=[f"{e[0]} {e[2]}" for e in EDITS]
)
def test_an_edit_is_heard_within_seconds_and_its_repair_is_not(
    watched: Room, ear: Ear, which: str, change: dict[str, object]
) -> None:
    time.sleep(
        1.1
    )  # managedFields count whole seconds: an edit in the second of our own write would prove nothing
    name = watched.spec.external_name
    before = ear.of(name)
    edit(watched, which, change)
    until(lambda: ear.of(name) > before, "the edit is heard", seconds=3)


@pytest.mark.parametrize("which", DELETED)
def test_a_deletion_is_heard_within_seconds(watched: Room, ear: Ear, which: str) -> None:
    repair(watched)
    name = watched.spec.external_name
    before = ear.of(name)
    watched.admin.delete(path_of(watched, which))
    until(lambda: ear.of(name) > before, "the deletion is heard", seconds=3)


def test_guards_and_nodes_are_heard_as_the_whole_site(watched: Room, ear: Ear, lab: LabSite) -> None:
    before = ear.of("")
    path = f"{guards.POLICIES}/{guards.SERVICES}"
    watched.admin.merge(path, {"spec": {"failurePolicy": "Ignore"}}, fieldManager=EDITOR)
    until(lambda: ear.of("") > before, "the policy's edit is heard", seconds=3)
    in_the_end(lab.driver().site_repair)
    node = watched.admin.items("/api/v1/nodes")[0]["metadata"]["name"]

    def labeled(value: str | None) -> None:
        heard = ear.of("")
        change = {"metadata": {"labels": {"gpuaas.io/tested": value}}}
        watched.admin.merge(f"/api/v1/nodes/{node}", change, fieldManager=EDITOR)
        until(lambda: ear.of("") > heard, "the node's label is heard", seconds=3)

    labeled("yes")
    labeled(None)


def test_what_happened_while_nobody_watched_is_heard_from_the_cursor(watched: Room, lab: LabSite) -> None:
    repair(watched)
    first = Ear(lab.driver(), seconds=3)
    until(lambda: first.proofs() > 0, "the watch is alive")
    cursor = first.close()
    edit(watched, f"resourcequotas/{names.QUOTA}", {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}})
    repair(watched)
    edit(watched, f"serviceaccounts/{ALICE.subject}", {"automountServiceAccountToken": True})
    second = Ear(lab.driver(), cursor, seconds=3)
    name = watched.spec.external_name
    until(lambda: second.of(name) > 0, "what was missed is heard", seconds=5)
    second.close()
    assert second.of("") == 0, "nothing made it look at the whole site"


def test_nonsense_for_a_cursor_begins_at_the_present(lab: LabSite) -> None:
    ear = Ear(lab.driver(), "no cursor of ours", seconds=3)
    until(lambda: ear.proofs() > 0, "the watch is alive")
    assert ear.heard[0] == SiteChange()
    ear.close()
