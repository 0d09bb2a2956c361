"""Where an operator has not confirmed a site, no call that changes something reaches it, whoever makes it."""

import uuid
from typing import Any

import pytest

from gpuaas.core.errors import Unconfirmed
from gpuaas.providers.base import ClusterDriver, Connection, Driver, WorkspaceRef
from gpuaas.providers.measured import CHANGING, verbs
from gpuaas.providers.registry import (
    cluster_driver_class,
    cluster_driver_for,
    cluster_kinds,
    driver_class,
    driver_for,
    site_kinds,
)
from gpuaas.providers.sandbox.models import SandboxSite

# They read, or concern credentials of people and the portal's own checks.
HARMLESS = {
    "access",
    "adoptable",
    "adoption_plan",
    "belongings",
    "console",
    "device_health",
    "device_metrics",
    "drift",
    "images",
    "inventory",
    "issue_access",
    "join",
    "machines",
    "node_check_end",
    "node_check_result",
    "observe",
    "parameters_schema",
    "preflight",
    "probe",
    "revoke",
    "revoke_access",
    "sign_in_kubeconfig",
    "signals",
}


def connection(*, may_change: bool) -> Connection:
    return Connection(uuid.uuid4(), "ber-1", "", {}, may_change=lambda: may_change)


def test_of_each_verb_it_is_known_whether_it_changes_something() -> None:
    found: list[type[Driver | ClusterDriver]] = [driver_class(kind.name) for kind in site_kinds()]
    found += [cluster_driver_class(kind.name) for kind in cluster_kinds()]
    every = frozenset[str]().union(*map(verbs, found))
    assert every - CHANGING == HARMLESS
    assert every >= CHANGING


@pytest.mark.parametrize("name", [kind.name for kind in site_kinds()])
def test_a_site_is_not_changed(name: str) -> None:
    driver: Any = driver_for(name, connection(may_change=False))
    for verb in sorted(CHANGING & verbs(driver_class(name))):
        with pytest.raises(Unconfirmed, match="changes nothing at ber-1 until an operator has confirmed"):
            getattr(driver, verb)()


@pytest.mark.parametrize("name", [kind.name for kind in cluster_kinds()])
def test_nor_are_its_clusters(name: str) -> None:
    driver: Any = cluster_driver_for(name, connection(may_change=False))
    with pytest.raises(Unconfirmed):
        driver.perform()


@pytest.mark.django_db
def test_it_is_read_all_the_same() -> None:
    driver = driver_for("sandbox", connection(may_change=False))
    SandboxSite.objects.create(site_id=driver.connection.site_id)
    assert driver.probe().server_version
    assert not driver.observe(WorkspaceRef(uuid.uuid4(), "gpu-1-train")).exists
