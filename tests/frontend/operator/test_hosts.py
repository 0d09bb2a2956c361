"""Pages of the hosts of a site of bare metal."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.providers.baremetal.hosts import host_bind
from gpuaas.providers.baremetal.models import Host
from tests.clusters.host_stage import PRODUCT, described, host_at
from tests.factories.catalog import SiteFactory
from tests.frontend.markup import asks_again
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
HOME = "/operator/sites/at/rack-1/hosts/"


@pytest.fixture
@lasting
def rack(db: None) -> Site:
    return SiteFactory.create(slug="rack-1", driver="bare-metal")


def said(client: Client, url: str) -> str:
    return client.get(url).content.decode()


def test_hosts_are_read_in_and_found(olga_at: Client, rack: Site) -> None:
    assert "No hosts yet" in said(olga_at, HOME)
    posted = {"document": json.dumps([described(7), described(8, gpus=0, product="")])}
    assert olga_at.post(f"{HOME}put/", posted).status_code == 302
    page = said(olga_at, HOME)
    assert f"8 × {PRODUCT}" in page
    assert "none (control plane)" in page
    assert "dgx-8" not in said(olga_at, f"{HOME}?q=h100")
    assert "No hosts match" in said(olga_at, f"{HOME}?state=broken")
    assert "Hosts</a>" in said(olga_at, reverse("frontend:operator_site", args=["rack-1"]))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("[", "This is not valid JSON"),
        (json.dumps([described(7), described(8, boot_mac="0c")]), "1.boot_mac: A MAC address"),
        (json.dumps([described(7), 8]), "1: A host must be a JSON object."),
        (json.dumps([described(product="a\x00b")]), "0: NUL characters"),
        (json.dumps([described(), described(8, boot_mac=described()["boot_mac"])]), "has the boot MAC"),
    ],
)
def test_what_cannot_be_is_refused_beside_the_text(
    olga_at: Client, rack: Site, document: str, words: str
) -> None:
    refused = olga_at.post(f"{HOME}put/", {"document": document})
    assert refused.status_code == 422
    assert words in refused.content.decode()
    assert not Host.objects.exists()


def test_a_host_is_taken_out_put_back_and_removed(olga_at: Client, ada_at: Client, rack: Site) -> None:
    host_at(rack)
    at = f"{HOME}at/dgx-7/"
    assert "Take out of service" in said(olga_at, at)
    assert "Take out of service" not in said(ada_at, at)
    refused = olga_at.post(f"{at}act/", {"verb": "take-out"})
    assert (refused.status_code, "Give a reason" in refused.content.decode()) == (422, True)
    assert olga_at.post(f"{at}act/", {"verb": "take-out", "reason": "a fan has failed"}).status_code == 302
    assert "Out of service: a fan has failed" in said(olga_at, at)
    assert olga_at.post(f"{at}act/", {"verb": "put-back"}).status_code == 302
    late = olga_at.post(f"{at}act/", {"verb": "put-back"})
    assert (late.status_code, "not broken" in late.content.decode()) == (422, True)
    wrong = olga_at.post(f"{at}act/", {"verb": "remove", "confirm_name": "dgx-8"})
    assert (asks_again(wrong, "", "dgx-8"), Host.objects.count()) == (True, 1)
    assert olga_at.post(f"{at}act/", {"verb": "remove", "confirm_name": "dgx-7"}).status_code == 302
    assert not Host.objects.exists()
    assert olga_at.post(f"{at}act/", {"verb": "put-back"}).status_code == 404


def test_what_is_held_and_leaves_says_so(olga_at: Client, rack: Site) -> None:
    kind = host_at(rack).resource_name
    host_bind(site_id=rack.pk, cluster_id=rack.pk, pool="gpu", slot="gpu-1", resource_name=kind, gpus=8)
    at = f"{HOME}at/dgx-7/"
    page = said(olga_at, at)
    assert "held by gpu-1" in page
    assert "Remove host" not in page
    assert olga_at.post(f"{at}act/", {"verb": "take-out", "reason": "quiet"}).status_code == 302
    assert "Bound, out of service" in said(olga_at, HOME)
