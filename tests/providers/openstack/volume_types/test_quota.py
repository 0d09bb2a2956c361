"""What Cinder is asked to enforce, as a pure function of what was bought and of the types that it has."""

import uuid

from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.openstack.volumes import MOST, wanted_quota


def spec_of(gib: int, bought: dict[str, int], closed: tuple[str, ...] = ()) -> WorkspaceSpec:
    return WorkspaceSpec(
        id=uuid.uuid4(),
        external_name="gpu-a-lab",
        project_slug="a",
        organization_slug="b",
        gpus=(),
        vcpus=0,
        memory_gib=0,
        storage_gib=gib,
        members=(),
        storage_classes=bought,
        closed_classes=closed,
    )


def test_each_type_has_what_was_bought_of_it_and_all_together_the_sum() -> None:
    wanted = wanted_quota(spec_of(1005, {"plain": 5, "fast": 1000}), ["plain", "fast"])
    assert (wanted["gigabytes"], wanted["volumes"], wanted["snapshots"]) == (1005, MOST, MOST)
    assert (wanted["gigabytes_plain"], wanted["volumes_plain"], wanted["snapshots_plain"]) == (5, 5, 5)
    assert (wanted["gigabytes_fast"], wanted["volumes_fast"]) == (1000, MOST)
    assert wanted["backups"] == wanted["groups"] == 0


def test_a_type_that_was_not_bought_has_none_whether_the_portal_knows_it_or_not() -> None:
    wanted = wanted_quota(spec_of(5, {"plain": 5}, ("known",)), ["plain", "known", "new"])
    assert wanted["gigabytes_known"] == wanted["volumes_new"] == wanted["snapshots_new"] == 0


def test_a_type_that_is_gone_is_not_named() -> None:
    assert "gigabytes_gone" not in wanted_quota(spec_of(6, {"plain": 5, "gone": 1}), ["plain"])


def test_before_the_types_of_a_site_are_known_there_is_only_the_sum() -> None:
    wanted = wanted_quota(spec_of(5, {}), ["plain", "fast"])
    assert wanted["gigabytes"] == 5
    assert not [key for key in wanted if key.endswith(("_plain", "_fast"))]
