"""Hosts of a rack as operators describe them, and the site that they make."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from gpuaas.catalog.models import Site
from gpuaas.clusters.services.hosts import host_do, hosts_put
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, Permanent, Unauthorized
from gpuaas.providers.baremetal.hosts import host_bind
from gpuaas.providers.baremetal.models import Host
from gpuaas.providers.baremetal.site import BareMetalSiteDriver
from gpuaas.providers.base import Change
from gpuaas.providers.registry import driver_class
from tenants.actors import Actor
from tenants.models import AuditEntry
from tests.clusters.host_stage import PRODUCT, described
from tests.factories.catalog import SiteFactory
from tests.lab.fixtures import LabSite
from tests.providers.kubernetes.conftest import make_spec


@pytest.fixture
def rack(db: None) -> Site:
    return SiteFactory.create(slug="rack-1", driver="bare-metal")


def test_hosts_are_read_in_and_changed_by_reading_again(rack: Site, as_olga: Actor) -> None:
    assert hosts_put(actor=as_olga, site=rack, described=[described(7), described(8)]) == 2
    host = Host.objects.get(name="dgx-7")
    assert (host.boot_mac, host.interfaces) == ("0c:42:a1:00:00:07", [{"name": "eno1", "mac": host.boot_mac}])
    changed = described(7, addresses=["10.0.16.70"])
    assert hosts_put(actor=as_olga, site=rack, described=[changed, described(9)]) == 1
    assert Host.objects.get(name="dgx-7").addresses == ["10.0.16.70"]
    assert AuditEntry.objects.filter(action="host.put", actor="olga").count() == 2


def test_what_a_cluster_holds_stays_as_it_is(rack: Site, as_olga: Actor) -> None:
    hosts_put(actor=as_olga, site=rack, described=[described()])
    host = Host.objects.get()
    host_bind(
        site_id=rack.pk,
        cluster_id=rack.pk,
        pool="gpu",
        slot="gpu-1",
        resource_name=host.resource_name,
        gpus=8,
    )
    hosts_put(actor=as_olga, site=rack, described=[described()])
    with pytest.raises(Conflict):
        hosts_put(actor=as_olga, site=rack, described=[described(addresses=["10.0.16.99"])])
    with pytest.raises(Conflict):
        host_do(actor=as_olga, site=rack, name="dgx-7", verb="remove")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "DGX 7"),
        ("name", "x" * 64),
        ("bmc_address", "https://root:calvin@10.0.8.7/"),
        ("bmc_address", ""),
        ("bmc_secret", None),
        ("bmc_verify", "no"),
        ("boot_mac", "0c:42"),
        ("interfaces", [{"name": "eno2", "mac": "0c:42:a1:00:01:07"}]),
        ("interfaces", [{"name": "eno1", "mac": "0c:42:a1:00:00:07"}] * 2),
        ("addresses", []),
        ("addresses", ["dgx-7"]),
        ("root_device", {"disk": "sda"}),
        ("network", []),
        ("gpus", True),
        ("gpus", -1),
        ("product", ""),
        ("colour", "red"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place_and_nothing_is_read_in(
    rack: Site, as_olga: Actor, field: str, value: object
) -> None:
    with pytest.raises(Invalid) as caught:
        hosts_put(actor=as_olga, site=rack, described=[described(8), described(**{field: value})])
    assert list(caught.value.fields) == [f"1.{field}"]
    assert not Host.objects.exists()


def test_two_hosts_have_two_bmcs_and_two_ports(rack: Site, as_olga: Actor) -> None:
    for key in ("bmc_address", "boot_mac"):
        with pytest.raises(Conflict):
            hosts_put(
                actor=as_olga, site=rack, described=[described(7), described(8, **{key: described(7)[key]})]
            )
    assert not Host.objects.exists()


def test_only_operators_and_only_at_sites_of_hosts(rack: Site, as_alice: Actor, as_olga: Actor) -> None:
    with pytest.raises((Forbidden, NotFound)):
        hosts_put(actor=as_alice, site=rack, described=[described()])
    with pytest.raises(Invalid):
        hosts_put(actor=as_olga, site=SiteFactory.create(driver="sandbox"), described=[described()])
    assert not Host.objects.exists()


def test_the_command_tells_who_holds_what(
    rack: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rack.json"
    file.write_text(json.dumps([described(7), described(8, gpus=0, product="")]))
    call_command("hosts", "rack-1", "put", str(file))
    call_command("hosts", "rack-1", "take-out", "dgx-7", reason="a fan has failed")
    call_command("hosts", "rack-1", "list")
    told = capsys.readouterr().out
    assert f"dgx-7  broken  8 × {PRODUCT}  a fan has failed" in told
    assert "dgx-8  free  control plane" in told
    for wrong in (["rack-1", "take-out", "dgx-8"], ["rack-1", "cleaned", "dgx-8"], ["no-such", "list"]):
        with pytest.raises(CommandError):
            call_command("hosts", *wrong)
    file.write_text(json.dumps([described(9, gpus="8")]))
    with pytest.raises(CommandError, match=r"0\.gpus"):
        call_command("hosts", "rack-1", "put", str(file))


@pytest.mark.lab
def test_a_site_of_hosts_has_their_gpus_and_no_workspaces(lab: LabSite, db: None, as_olga: Actor) -> None:
    connection = lab.connection()
    rack = SiteFactory.create(id=connection.site_id, driver="bare-metal")
    hosts_put(actor=as_olga, site=rack, described=[described(7), described(8), described(9, gpus=0)])
    host_do(actor=as_olga, site=rack, name="dgx-8", verb="take-out", reason="a fan has failed")
    assert driver_class("bare-metal") is BareMetalSiteDriver
    driver = BareMetalSiteDriver(connection)
    seen = driver.probe()
    assert seen.server_version.startswith("v1.")
    assert [pool.kind.slug for pool in seen.pools] == ["h100-sxm-80gb"]
    assert {(node.name, node.healthy, node.reason) for node in seen.nodes} == {
        ("dgx-7", 8, ""),
        ("dgx-8", 0, "a fan has failed"),
        ("dgx-9", 0, ""),
    }
    spec = make_spec()
    with pytest.raises(Permanent):
        driver.perform(Change.CREATE, spec, driver.steps(Change.CREATE)[0].key)
    with pytest.raises(Unauthorized):
        BareMetalSiteDriver(
            type(connection)(connection.site_id, "rack-1", "", credentials={"kubeconfig": ""})
        ).probe()
