"""The operator reads what the site no longer has of what was sold, on its page and by the API."""

from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_probe
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxNode

SAID = "the site has no nvidia.com/gpu as it was sold"


def test_it_is_told_with_what_to_do(site: Site, olga_at: Client) -> None:
    fleet_seed(site.pk, slug=site.slug)
    assert site_probe(site.pk)
    assert "by the same names" in olga_at.get(f"/operator/sites/at/{site.slug}/").content.decode()
    SandboxNode.objects.filter(name__startswith="h100").update(resource_name="nvidia.com/renamed")
    assert site_probe(site.pk)
    page = olga_at.get(f"/operator/sites/at/{site.slug}/").content.decode()
    assert SAID in page
    assert "Restore at the site what was sold" in page
    answer = olga_at.get(f"/api/v1/platform/sites/{site.slug}").json()
    (told,) = [row for row in answer["conditions"] if row["type"] == "AsSold"]
    assert (told["status"], told["reason"]) == ("False", "NotAsSold")
    assert SAID in told["message"]
