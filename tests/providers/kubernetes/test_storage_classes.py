"""On the real API server: storage only of classes that were bought, and no more than was bought of each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from gpuaas.core.errors import GpuaasError
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.inventory.storage import CLASSES
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec, provision

pytestmark = pytest.mark.lab

STANDARD, FAST, ARCHIVE = "gpuaas-standard", "gpuaas-fast", "gpuaas-archive"
BETA = "volume.beta.kubernetes.io/storage-class"


def storage_class(name: str, *, default: bool = False) -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/none"}


@pytest.fixture(scope="module")
def api(lab: LabSite) -> Iterator[Api]:
    made = lab.api()
    for body in (storage_class(STANDARD, default=True), storage_class(FAST)):
        made.create(CLASSES, body)
    yield made
    for name in (STANDARD, FAST, ARCHIVE):
        made.delete(f"{CLASSES}/{name}")


@pytest.fixture(scope="module")
def bought(api: Api, lab: LabSite) -> Iterator[Room]:
    """10 GiB of the default class and 5 of the fast one."""
    spec = make_spec(storage_gib=15, storage_classes={STANDARD: 10, FAST: 5})
    yield make_room(lab, spec)
    forget(lab, spec)


def claim(room: Room, name: str, size: str, storage_class: str | None = None, **annotations: str) -> Object:
    body: Object = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }
    if storage_class is not None:
        body["spec"]["storageClassName"] = storage_class
    return room.tenant.create(room.path("persistentvolumeclaims"), body)


@pytest.fixture(autouse=True)
def cleared(bought: Room) -> Iterator[None]:
    yield
    bought.admin.delete(bought.path("persistentvolumeclaims"))


def test_the_site_is_found_to_have_them(api: Api, lab: LabSite) -> None:
    found = {each.name: each for each in lab.driver().probe().storage_classes or ()}
    assert found[STANDARD].default
    assert not found[FAST].default
    assert found[FAST].provisioner == "example.com/none"


def test_a_class_that_was_bought_is_admitted_up_to_the_amount(bought: Room, lab: LabSite) -> None:
    claim(bought, "one", "3Gi", FAST)
    with pytest.raises(GpuaasError, match="exceeded quota"):
        claim(bought, "two", "3Gi", FAST)
    claim(bought, "three", "2Gi", FAST)
    made = claim(bought, "plain", "10Gi")
    assert made["spec"]["storageClassName"] == STANDARD
    seen = lab.driver().observe(bought.ref)
    assert (seen.hard[f"storage:{FAST}"], seen.hard[f"storage:{STANDARD}"]) == (5, 10)
    assert (seen.used[f"storage:{FAST}"], seen.used[f"storage:{STANDARD}"]) == (5, 10)
    found = {each.name: (each.gib, each.storage_class, each.bound) for each in seen.volumes}
    assert found == {"one": (3, FAST, False), "three": (2, FAST, False), "plain": (10, STANDARD, False)}
    with pytest.raises(GpuaasError, match="exceeded quota"):
        claim(bought, "four", "1Gi", STANDARD)


def test_a_class_that_the_site_gets_later_is_closed_at_once_and_limited_after_the_next_look(
    api: Api, bought: Room
) -> None:
    """Also for a claim that was there before the class, and would have waited for it."""
    for annotations in ({}, {BETA: ARCHIVE}):
        with pytest.raises(GpuaasError, match="did not buy storage of the class"):
            claim(bought, "early", "1Gi", None if annotations else ARCHIVE, **annotations)
    api.create(CLASSES, storage_class(ARCHIVE))
    with pytest.raises(GpuaasError, match="did not buy storage of the class"):
        claim(bought, "late", "1Gi", ARCHIVE)
    provision(bought.driver, replace(bought.spec, closed_classes=(ARCHIVE,)))
    assert bought.driver.observe(bought.ref).hard[f"storage:{ARCHIVE}"] == 0
    with pytest.raises(GpuaasError, match="did not buy storage of the class"):
        claim(bought, "late", "1Gi", ARCHIVE)


def test_no_class_is_changed_or_hidden_afterwards(bought: Room) -> None:
    claim(bought, "mine", "1Gi", STANDARD)
    path = f"{bought.path('persistentvolumeclaims')}/mine"
    with pytest.raises(GpuaasError):
        bought.tenant.merge(path, {"metadata": {"annotations": {BETA: ARCHIVE}}})
    with pytest.raises(GpuaasError):
        bought.tenant.merge(path, {"spec": {"storageClassName": ARCHIVE}})
    bought.tenant.merge(path, {"metadata": {"labels": {"kept": "yes"}}})


@pytest.mark.parametrize(
    ("named", "annotations"),
    [("", {}), (None, {BETA: ""}), (STANDARD, {BETA: ""})],
    ids=["field", "older", "both"],
)
def test_a_volume_of_no_class_is_not_claimed(
    bought: Room, named: str | None, annotations: dict[str, str]
) -> None:
    """It was made by hand for somebody, may be larger than what is claimed of it, and no class's quota counts it."""
    with pytest.raises(GpuaasError, match="did not buy storage of the class"):
        claim(bought, "none", "1Gi", named, **annotations)


def test_a_claim_that_waits_for_a_default_names_no_class_later_but_one_that_was_bought(
    api: Api, bought: Room
) -> None:
    path, default = (
        f"{bought.path('persistentvolumeclaims')}/waits",
        "storageclass.kubernetes.io/is-default-class",
    )
    api.merge(f"{CLASSES}/{STANDARD}", {"metadata": {"annotations": {default: "false"}}})
    try:
        until(lambda: "storageClassName" not in _tried(bought)["spec"], "the API server knows of no default")
        claim(bought, "waits", "1Gi")
    finally:
        api.merge(f"{CLASSES}/{STANDARD}", {"metadata": {"annotations": {default: "true"}}})
    with pytest.raises(GpuaasError, match="did not buy storage of the class"):
        bought.tenant.merge(path, {"spec": {"storageClassName": ""}})
    until(lambda: bought.admin.get(path)["spec"].get("storageClassName") == STANDARD, "it gets the default")
    until(lambda: _used(bought)[f"storage:{STANDARD}"] == 1, "it is counted as one of it")


def _used(room: Room) -> Mapping[str, int]:
    return room.driver.observe(room.ref).used


def _tried(room: Room) -> Object:
    return room.tenant.create(
        room.path("persistentvolumeclaims"),
        {
            "metadata": {"generateName": "tried-"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        dryRun="All",
    )


def test_the_list_of_what_was_bought_is_the_portals(bought: Room) -> None:
    path = f"/api/v1/namespaces/{bought.spec.external_name}"
    with pytest.raises(GpuaasError):
        bought.tenant.merge(path, {"metadata": {"annotations": {"gpuaas.io/storage-classes": ARCHIVE}}})
