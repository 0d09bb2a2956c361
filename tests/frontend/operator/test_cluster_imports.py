"""Import from a class by page: pressed, told in words what would change, published or dropped."""

import json

import pytest
from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate, ParametersImport
from gpuaas.clusters.reconcile.imports import parameters_import
from gpuaas.core.crypto import encrypt_json
from tenants.actors import Actor
from tests.clusters.class_stage import Classes
from tests.clusters.stage import offered
from tests.frontend.markup import words
from tests.lab.fixtures import LabSite

pytestmark = pytest.mark.django_db
TEMPLATE = "/operator/cluster-templates/of/k8s/"
PAGE = f"{TEMPLATE}import/"


@pytest.fixture
def template(as_olga: Actor, site: Site, lab: LabSite) -> ClusterTemplate:
    return Classes(lab).offered(as_olga, site)


def test_pressed_read_and_published(olga_at: Client, ada_at: Client, template: ClusterTemplate) -> None:
    assert "Import from the class" in words(olga_at.get(TEMPLATE))
    assert "Not read yet" in words(olga_at.get(PAGE))
    assert olga_at.post(PAGE)["Location"] == PAGE
    waiting = words(olga_at.get(PAGE))
    assert "Stop reading" in waiting
    assert f"cluster_template_import:{template.pk}" in waiting
    assert parameters_import(template.pk)
    shown = words(olga_at.get(PAGE))
    for said in (
        "boot_seconds",
        "a whole number, from 1 to 60",
        "5 by default",
        "Discard",
    ):
        assert said in shown, said
    looked = words(ada_at.get(PAGE))
    assert "boot_seconds" in looked
    assert "Publish" not in looked
    version = ParametersImport.objects.get().version
    assert olga_at.post(f"{PAGE}publish/", {"version": version - 1})["Location"] == PAGE
    assert "read them again" in words(olga_at.get(PAGE))
    assert template.versions.count() == 1
    assert olga_at.post(f"{PAGE}publish/", {"version": version})["Location"] == TEMPLATE
    assert "Version 2 is used for new orders" in words(olga_at.get(TEMPLATE))
    assert "It is version 2 now" in words(olga_at.get(PAGE))
    assert olga_at.post(f"{PAGE}publish/", {"version": version + 1})["Location"] == PAGE
    assert "already published as version 2" in words(olga_at.get(PAGE))


def test_dropped(olga_at: Client, template: ClusterTemplate) -> None:
    olga_at.post(PAGE)
    assert parameters_import(template.pk)
    version = ParametersImport.objects.get().version
    assert olga_at.post(f"{PAGE}drop/", {"version": version - 1})["Location"] == PAGE
    assert olga_at.post(f"{PAGE}drop/", {"version": version})["Location"] == TEMPLATE
    assert olga_at.post(f"{PAGE}drop/", {"version": version})["Location"] == TEMPLATE, "it was pressed twice"
    assert not ParametersImport.objects.exists()


def test_a_site_that_is_away_is_told(
    olga_at: Client, template: ClusterTemplate, site: Site, lab: LabSite
) -> None:
    config = json.loads(lab.kubeconfig)
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    Site.objects.filter(pk=site.pk).update(credentials=encrypt_json({"kubeconfig": json.dumps(config)}))
    olga_at.post(PAGE)
    assert not parameters_import(template.pk)
    shown = words(olga_at.get(PAGE))
    assert "No answer" in shown
    assert "The portal asks again automatically." in shown


def test_a_driver_that_has_nothing_to_tell(olga_at: Client, as_olga: Actor, site: Site) -> None:
    offered(as_olga, site)
    assert "Import from the class" not in words(olga_at.get(TEMPLATE))
    assert "Nothing to import" in words(olga_at.get(PAGE))
    assert olga_at.post(PAGE)["Location"] == PAGE
    assert "does not report available parameters" in words(olga_at.get(PAGE))
