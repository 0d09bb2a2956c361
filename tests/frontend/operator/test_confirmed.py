"""A site that waits after a restore, until an operator has compared it and confirms it."""

import pytest
from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import sites_unconfirm
from tenants.models import AuditEntry

pytestmark = pytest.mark.django_db


def test_a_site_is_confirmed_after_a_restore(olga_at: Client, site: Site, nodes: None) -> None:
    Site.objects.update(confirmed=False)
    page = olga_at.get("/operator/sites/at/ber-1/").content.decode()
    assert "Confirm the site?" in page
    assert "/operator/sites/at/ber-1/drift/" in page.split("Confirm the site?")[1]
    olga_at.post("/operator/sites/at/ber-1/confirm/", {"confirmed": "1"})
    assert Site.objects.get().confirmed
    assert "Confirm the site?" not in olga_at.get("/operator/sites/at/ber-1/").content.decode()
    entry = AuditEntry.objects.get(action="site.update")
    assert (entry.before, entry.after) == ({"confirmed": False}, {"confirmed": True})


def test_a_site_that_is_frozen_shows_it_at_once(olga_at: Client, site: Site, nodes: None) -> None:
    olga_at.post("/operator/sites/at/ber-1/confirm/", {"confirmed": ""})
    for page in ("/operator/sites/at/ber-1/", "/operator/sites/"):
        shown = olga_at.get(page).content.decode()
        assert "Since the database was restored" in shown
        assert "Unconfirmed" in shown
    olga_at.post("/operator/sites/at/ber-1/confirm/", {"confirmed": "1"})
    assert "Since the database was restored" not in olga_at.get("/operator/sites/at/ber-1/").content.decode()


def test_after_a_restore_sites_show_at_once_that_they_wait(olga_at: Client, site: Site, nodes: None) -> None:
    assert sites_unconfirm() == [site]
    assert not Site.objects.get().confirmed
    assert "Since the database was restored" in olga_at.get("/operator/sites/at/ber-1/").content.decode()
