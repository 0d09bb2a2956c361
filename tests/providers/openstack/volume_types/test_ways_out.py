"""Ways to a volume of a type that was not bought, or to more of one: none leads there."""

import pytest

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud, Object
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.lab.openstack.fixtures import Project
from tests.providers.openstack.test_volumes import status
from tests.providers.openstack.volume_types.conftest import (
    PLAIN,
    Types,
    is_given,
    made,
    retyped,
    snapshot,
    theirs,
)

pytestmark = pytest.mark.openstack


def test_no_retype_leads_to_more_of_a_type(stored: WorkspaceSpec, types: Types, member: Cloud) -> None:
    disk, big = made(member), made(member, 2)
    refused(member, disk, types.archive)
    with pytest.raises(NotFound):
        member.post("volume", f"/volumes/{disk}/action", {"os-retype": {"new_type": types.private}})
    retyped(member, big, types.fast)
    refused(member, disk, types.fast)
    made(member)
    refused(member, big, PLAIN)


def refused(own: Cloud, volume: str, to: str) -> None:
    with pytest.raises(QuotaRefused, match=r"(?i)quota"):
        own.post("volume", f"/volumes/{volume}/action", {"os-retype": {"new_type": to}})


def test_no_retype_with_snapshots_leads_to_more_of_a_type(
    stored: WorkspaceSpec, types: Types, member: Cloud
) -> None:
    """They count for the new type too."""
    disk = made(member)
    for _ in range(2):
        snapshot(member, disk)
    refused(member, disk, types.fast)


def test_no_copy_snapshot_or_growth_leads_to_more_of_a_type(
    stored: WorkspaceSpec, types: Types, member: Cloud
) -> None:
    disk, quick = made(member), made(member, 2, types.fast)
    copy = snapshot(member, disk)
    bodies: list[tuple[str, Object]] = [
        ("/volumes", {"volume": {"size": 1, "source_volid": disk, "volume_type": types.archive}}),
        ("/volumes", {"volume": {"size": 1, "snapshot_id": copy, "volume_type": types.archive}}),
        ("/volumes", {"volume": {"size": 1, "source_volid": disk, "volume_type": types.fast}}),
        ("/snapshots", {"snapshot": {"volume_id": quick}}),
        (f"/volumes/{quick}/action", {"os-extend": {"new_size": 3}}),
    ]
    for path, body in bodies:
        with pytest.raises((QuotaRefused, Permanent)):  # a copy is of its source's type
            member.post("volume", path, body)


def test_an_image_that_names_a_type_leads_to_no_more_of_it(
    stored: WorkspaceSpec, types: Types, member: Cloud
) -> None:
    image = {"name": "own", "disk_format": "raw", "container_format": "bare"}
    key = member.post("image", "/images", {**image, "cinder_img_volume_type": types.archive})["id"]
    try:
        binary = {"Content-Type": "application/octet-stream"}
        member._call("PUT", "image", f"/images/{key}/file", data=b"x", headers=binary)
        with pytest.raises(QuotaRefused, match=r"(?i)quota"):
            member.post("volume", "/volumes", {"volume": {"size": 1, "imageRef": key}})
    finally:
        member.delete("image", f"/images/{key}")


def test_a_volume_of_another_type_cannot_be_accepted_from_outside(
    stored: WorkspaceSpec, types: Types, member: Cloud, admin: Cloud, cloud: LabCloud
) -> None:
    neighbor = cloud.project()
    archived, quick = (theirs(cloud, neighbor, name) for name in (types.archive, types.fast))
    try:
        with pytest.raises(QuotaRefused, match=r"(?i)quota"):
            accept(member, cloud, neighbor, archived)
        accept(member, cloud, neighbor, quick)
        assert [is_given(member, types.fast) for _ in range(2)] == [True, False]
    finally:
        for key in (archived, quick):
            admin.post("volume", f"/volumes/{key}/action", {"os-force_delete": {}})
            until(lambda key=key: not status(admin, key), "it is gone")  # type: ignore[misc]


def accept(own: Cloud, cloud: LabCloud, neighbor: Project, volume: str) -> None:
    path, body = "/os-volume-transfer", {"transfer": {"volume_id": volume}}
    offer = cloud.call("POST", "block-storage", path, token=neighbor.token, json=body).json()["transfer"]
    own.post("volume", f"{path}/{offer['id']}/accept", {"accept": {"auth_key": offer["auth_key"]}})
