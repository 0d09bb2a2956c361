"""Pages of a site that an operator has not confirmed say so at once, before its next probe."""

import pytest
from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import sites_unconfirm

pytestmark = pytest.mark.django_db


def test_a_site_that_is_frozen_shows_it_at_once(olga_at: Client, site: Site) -> None:
    olga_at.post("/operator/sites/at/ber-1/confirm/", {"confirmed": ""})
    for page in ("/operator/sites/at/ber-1/", "/operator/sites/"):
        shown = olga_at.get(page).content.decode()
        assert "Since the database was restored" in shown
        assert "Unconfirmed" in shown
    olga_at.post("/operator/sites/at/ber-1/confirm/", {"confirmed": "1"})
    assert "Since the database was restored" not in olga_at.get("/operator/sites/at/ber-1/").content.decode()


def test_after_a_restore_sites_show_at_once_that_they_wait(olga_at: Client, site: Site) -> None:
    assert sites_unconfirm() == [site]
    assert not Site.objects.get().confirmed
    assert "Since the database was restored" in olga_at.get("/operator/sites/at/ber-1/").content.decode()
