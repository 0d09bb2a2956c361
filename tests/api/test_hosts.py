"""The hosts of a site of bare metal by REST."""

from typing import Any

import pytest

from gpuaas.catalog.models import Site
from gpuaas.providers.baremetal.hosts import host_bind
from gpuaas.providers.baremetal.models import Host
from tenants.models import AuditEntry, User
from tests.api.caller import Caller
from tests.clusters.host_stage import PRODUCT, described
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db
HOME = "/platform/sites/rack-1/hosts"


@pytest.fixture
def rack(db: None) -> Site:
    return SiteFactory.create(slug="rack-1", driver="bare-metal")


@pytest.fixture
def olgas(olga: User, rack: Site) -> Caller:
    return Caller(olga)


def names(answer: Any) -> list[str]:
    return [row["name"] for row in answer.json["results"]]


def test_a_host_from_its_description_to_its_removal(olgas: Caller, rack: Site) -> None:
    hosts = [described(7), described(8), described(9, gpus=0, product="")]
    made = olgas.post(HOME, {"hosts": hosts}, Idempotency_Key="one")
    assert (made.status, made.json) == (200, {"hosts": 3, "new": 3})
    again = olgas.post(HOME, {"hosts": hosts}, Idempotency_Key="one")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert names(olgas.get(HOME)) == ["dgx-7", "dgx-8", "dgx-9"]
    out = olgas.post(f"{HOME}/dgx-8/actions", {"action": "take-out", "reason": "a fan has failed"})
    assert (out.status, out.json["state"], out.json["reason"]) == (200, "broken", "a fan has failed")
    assert names(olgas.get(f"{HOME}?state=broken")) == ["dgx-8"]
    assert names(olgas.get(f"{HOME}?search={PRODUCT[:11].lower()}")) == ["dgx-7", "dgx-8"]
    assert olgas.get(f"{HOME}?state=melted").status == 400
    assert olgas.post(f"{HOME}/dgx-8/actions", {"action": "put-back"}).json["state"] == "free"
    assert olgas.post(f"{HOME}/dgx-8/actions", {"action": "put-back"}).status == 409
    assert olgas.ask("DELETE", f"{HOME}/dgx-8", None).status == 204
    assert olgas.ask("DELETE", f"{HOME}/dgx-8", None).status == 404
    actions = AuditEntry.objects.filter(actor="olga").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["host.put", "host.take_out", "host.put_back", "host.remove"]


def test_what_a_cluster_holds_says_whose_it_is_and_stays(olgas: Caller, rack: Site) -> None:
    olgas.post(HOME, {"hosts": [described()]})
    kind = Host.objects.get().resource_name
    host_bind(site_id=rack.pk, cluster_id=rack.pk, pool="gpu", slot="gpu-1", resource_name=kind, gpus=8)
    held = olgas.get(f"{HOME}/dgx-7").json
    assert (held["state"], held["cluster"], held["slot"]) == ("bound", str(rack.pk), "gpu-1")
    assert olgas.post(HOME, {"hosts": [described(addresses=["10.0.16.99"])]}).status == 409
    assert olgas.ask("DELETE", f"{HOME}/dgx-7", None).status == 409
    assert olgas.post(f"{HOME}/dgx-7/actions", {"action": "cleaned"}).status == 409


def test_what_cannot_be_is_refused_at_its_place(olgas: Caller, site: Site) -> None:
    refused = olgas.post(HOME, {"hosts": [described(7), described(8, boot_mac="0c")]})
    assert refused.status == 400
    assert list(refused.error["fields"]) == ["hosts.1.boot_mac"]
    assert not Host.objects.exists()
    unread: list[dict[str, Any]] = [
        {"hosts": []},
        {"hosts": ["dgx-7"]},
        {},
        {"hosts": [described()], "site": "ber-1"},
    ]
    for wrong in unread:
        assert olgas.post(HOME, wrong).status == 400
    assert olgas.post(HOME, {"hosts": [described()]}).status == 200
    assert "reason" in olgas.post(f"{HOME}/dgx-7/actions", {"action": "take-out"}).error["fields"]
    assert olgas.post(f"{HOME}/dgx-7/actions", {"action": "remove"}).status == 400
    assert olgas.post(f"{HOME}/dgx-9/actions", {"action": "put-back"}).status == 404
    other = olgas.post(f"/platform/sites/{site.slug}/hosts", {"hosts": [described()]})
    assert list(other.error["fields"]) == ["site"], "a site of another driver has none"
