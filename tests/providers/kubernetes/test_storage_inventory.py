"""Which storage classes of a site are told apart, without a site."""

from typing import Any

from gpuaas.providers.base import ObservedStorageClass
from gpuaas.providers.kubernetes.inventory.storage import classes_of


def storage_class(name: str, *, default: bool = False, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": at}
    return {"metadata": metadata, "provisioner": f"{name}.example"}


def test_they_come_by_name() -> None:
    rows = [storage_class("standard", default=True), storage_class("fast")]
    assert classes_of(rows) == (
        ObservedStorageClass("fast", "fast.example"),
        ObservedStorageClass("standard", "standard.example", default=True),
    )
    assert classes_of([]) == ()


def test_of_several_defaults_the_newest_counts_as_for_kubernetes() -> None:
    rows = [
        storage_class("new", default=True, at="2026-03-01T00:00:00Z"),
        storage_class("old", default=True),
        storage_class("newest", at="2026-04-01T00:00:00Z"),
    ]
    assert [each.name for each in classes_of(rows) if each.default] == ["new"]
    twins = [storage_class("b", default=True), storage_class("a", default=True)]
    assert [each.name for each in classes_of(twins) if each.default] == ["a"]


def test_a_name_that_no_quota_can_hold_is_left_to_the_guards() -> None:
    assert classes_of([storage_class("a" * 226)]) == ()
    assert [each.name for each in classes_of([storage_class("a" * 225)])] == ["a" * 225]
