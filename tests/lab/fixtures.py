"""One real control plane for all test processes of this machine; each test makes namespaces of its own in it.

The first process that needs it starts it, and it ends with the run, as every lab does (`deploy/lab/owners.py`); with
GPUAAS_LAB_KEEP set it stays for the next run, until `python -m tests.lab.stop`. With GPUAAS_LAB_KUBECONFIG set, that
cluster is used and nothing is started; GPUAAS_LAB_SUFFIX keeps two runs on one machine apart.
"""

import os
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from deploy.lab import owners
from deploy.lab.files import CACHE
from deploy.lab.kubernetes import Lab, LabError, existing_kubeconfig
from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import Change, Connection
from gpuaas.providers.base.steps import Provisioner

if TYPE_CHECKING:  # every run loads this file, and most tests need no client of Kubernetes
    from gpuaas.providers.kubeapi.client import Api
    from gpuaas.providers.kubernetes.driver import KubernetesDriver

STATE_DIR = CACHE / f"gpuaas-lab-tests{os.environ.get('GPUAAS_LAB_SUFFIX', '')}"
Seen = TypeVar("Seen")
Done = TypeVar("Done")
Spec = TypeVar("Spec")
# Bounds say when to give up, not how fast something is (`make bench` does): machines that run the suite differ much.
PATIENCE = 5
# fixtures that start a control plane, by the mark of the tests that ask for one of them, directly or not
STARTS = {
    "lab": {
        "lab",
        "own_lab",
        "cluster_api_lab",
        "cluster_api_openstack_lab",
        "virtual_lab",
        "kueue_lab",
        "trainer_lab",
    },
    "openstack": {"openstack_lab", "own_openstack_lab"},
}


def pytest_configure() -> None:
    """The process that hands out the tests owns what all of them start."""
    owners.own()


def pytest_itemcollected(item: pytest.Item) -> None:
    """`-m "not lab and not openstack"` leaves out every test that would start one."""
    for mark, fixtures in STARTS.items():
        if fixtures & set(getattr(item, "fixturenames", ())):
            item.add_marker(mark)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What a lab is built from is there before the clock of a test begins to run: a slow machine builds it for longer than any
    test may take."""
    if item.get_closest_marker("lab") is not None:
        _built()
    return (yield)


@cache
def _built() -> None:
    if existing_kubeconfig() is None:
        with suppress(LabError):  # the fixture tries again and says why
            Lab(state_dir=STATE_DIR).build()


@dataclass(frozen=True)
class LabSite:
    """The control plane that the tests share."""

    kubeconfig_path: Path

    @property
    def kubeconfig(self) -> str:
        return self.kubeconfig_path.read_text()

    def api(self) -> "Api":
        """With every right, to look behind the driver's back."""
        from gpuaas.providers.kubeapi.client import Api

        return Api(self.kubeconfig)

    def connection(self) -> Connection:
        return Connection(
            site_id=uuid.uuid4(), site_slug="lab", endpoint="", credentials={"kubeconfig": self.kubeconfig}
        )

    def driver(self) -> "KubernetesDriver":
        from gpuaas.providers.kubernetes.driver import KubernetesDriver

        return KubernetesDriver(self.connection())


def pause(began: float) -> None:
    """A tenth of what was waited since `began` on the monotonic clock, 50 to 300 ms: who waits leaves the processor to the lab."""
    time.sleep(min(max(0.05, (time.monotonic() - began) / 10), 0.3))


def until(look: Callable[[], Seen | None], what: str | Callable[[], str], *, seconds: float = 60) -> Seen:
    """The first thing seen that is true; fails with `what` after PATIENCE times the seconds. The only way to wait on the lab."""
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE * seconds:
        if seen := look():
            return seen
        pause(began)
    pytest.fail(f"not within {PATIENCE * seconds:.0f} s: {what if isinstance(what, str) else what()}")


def carry_out(site: Provisioner[Spec], change: Change, spec: Spec, *, before: str = "") -> None:
    """Each step of a change until it is done; `before`: only those that precede the step of this key."""
    for step in takewhile(lambda each: each.key != before, site.steps(change, spec)):
        until(partial(_is_done, site, change, spec, step.key), f"step {step.key} of {change}")


def _is_done(site: Provisioner[Spec], change: Change, spec: Spec, key: str) -> bool:
    return site.perform(change, spec, key).done


def in_the_end(attempt: Callable[[], Done]) -> Done:
    """As the portal does it: again while the site says Unavailable, as where it writes to the same object itself."""
    done: list[Done] = []

    def tried() -> bool:
        try:
            done.append(attempt())
        except Unavailable:
            return False
        return True

    until(tried, "the site takes it")
    return done[0]


@pytest.fixture(scope="session")
def lab() -> LabSite:
    given = existing_kubeconfig()
    if given is not None:
        return LabSite(given)
    lab = Lab(state_dir=STATE_DIR)
    try:
        lab.up()  # under a lock of its own: of two processes one starts it, the other finds it
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    return LabSite(lab.kubeconfig)


@pytest.fixture(scope="module")
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One that a test may stop and start without harm to others."""
    lab = Lab(state_dir=tmp_path_factory.mktemp("own-lab"))
    try:
        lab.up()
    except LabError as error:
        lab.down(purge=True)
        pytest.fail(str(error), pytrace=False)
    yield lab
    lab.down(purge=True)
