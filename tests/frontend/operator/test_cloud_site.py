"""An OpenStack cloud is attached in the browser: by a clouds.yaml or an application credential, refused beside the field."""

import re
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from gpuaas.catalog.models import Site, SiteRound
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json
from tenants.models import AuditEntry
from tests.frontend.markup import words

NEW = "/operator/sites/new/"
CLOUDS = "clouds:\n  mine:\n    auth: {auth_url: 'https://keystone.invalid:5000/v3', username: gpuaas, password: very-secret}\n"
FORM = {"slug": "cloud-1", "name": "Cloud", "driver": "openstack", "oversubscription_percent": "100"}
TYPED = {
    "auth_url": "https://keystone.invalid:5000/v3",
    "application_credential_id": "21dced0fd20347869b93710d2b98aae0",
    "application_credential_secret": "very-secret",
}


def test_a_clouds_yaml_is_sealed_with_what_is_said_of_the_cloud(olga_at: Client) -> None:
    assert "clouds.yaml" in olga_at.get(f"{NEW}?driver=openstack").content.decode()
    more = {
        "domain": "gpu",
        "external_network": "public",
        "aliases": "CUSTOM_PCI_10DE_2330 = h100\n\nCUSTOM_PCI_10DE_20B0=a100",
        "surplus_machines": "delete",
        "history_days": "90",
        "token_cache_seconds": "300",
        "sites_projects": "octavia, heat-*",
    }
    answer = olga_at.post(NEW, {**FORM, **more, "clouds_yaml": CLOUDS})
    assert answer["Location"] == "/operator/sites/at/cloud-1/"
    site = Site.objects.get(slug="cloud-1")
    assert decrypt_json(site.credentials) == {"clouds_yaml": CLOUDS.strip()}
    assert site.options == {
        "domain": "gpu",
        "external_network": "public",
        "aliases": {"CUSTOM_PCI_10DE_2330": "h100", "CUSTOM_PCI_10DE_20B0": "a100"},
        "surplus_machines": "delete",
        "history_days": 90,
        "token_cache_seconds": 300,
        "sites_projects": ["octavia", "heat-*"],
    }
    assert "very-secret" not in site.credentials + olga_at.get(answer["Location"]).content.decode()
    assert "very-secret" not in str(AuditEntry.objects.get(action="site.create").after)


def test_a_file_and_which_of_its_clouds(olga_at: Client) -> None:
    text = CLOUDS + CLOUDS.split("\n", 1)[1].replace("mine", "other")
    file = SimpleUploadedFile("clouds.yaml", text.encode())
    olga_at.post(NEW, {**FORM, "clouds_yaml_file": file, "cloud": "other"})
    assert decrypt_json(Site.objects.get().credentials) == {"clouds_yaml": text.strip(), "cloud": "other"}


def test_an_application_credential_is_enough(olga_at: Client) -> None:
    olga_at.post(NEW, {**FORM, **TYPED, "region_name": "RegionTwo"})
    assert decrypt_json(Site.objects.get().credentials) == {**TYPED, "region_name": "RegionTwo"}


@pytest.mark.parametrize(
    ("given", "beside", "said"),
    [
        ({}, "clouds_yaml", "needs a clouds.yaml or an application credential"),
        ({"clouds_yaml": "{"}, "clouds_yaml", "not valid YAML"),
        ({"clouds_yaml": "clouds: {}"}, "clouds_yaml", "names no cloud"),
        ({"clouds_yaml": CLOUDS, "cloud": "other"}, "clouds_yaml", "no cloud 'other'"),
        ({"clouds_yaml": CLOUDS + "    cacert: /etc/ssl/x\n"}, "clouds_yaml", "cacert"),
        ({"clouds_yaml": CLOUDS + "    verify: /etc/ssl/x\n"}, "clouds_yaml", "true or false"),
        ({"clouds_yaml": CLOUDS, **TYPED}, "auth_url", "not both"),
        ({"auth_url": TYPED["auth_url"]}, "application_credential_id", "needs this too"),
        ({**TYPED, "auth_url": "/etc/passwd"}, "clouds_yaml", "not a URL"),
        ({"clouds_yaml": CLOUDS, "aliases": "h100"}, "aliases", "One entry per line"),
        ({"clouds_yaml": CLOUDS, "aliases": "H100 = h100"}, "aliases", "not a resource class of GPUs"),
        ({"clouds_yaml": CLOUDS, "aliases": "VGPU = h100:2"}, "aliases", "not a valid alias"),
        ({"clouds_yaml": CLOUDS, "surplus_machines": "keep"}, "surplus_machines", "Choose one of the list"),
        ({"clouds_yaml": CLOUDS, "history_days": "0"}, "history_days", "Enter 1 or more"),
        (
            {"clouds_yaml": CLOUDS, "token_cache_seconds": "3601"},
            "token_cache_seconds",
            "Enter 3600 or less",
        ),
    ],
)
def test_what_is_no_cloud_is_refused_beside_the_field(
    olga_at: Client, given: dict[str, str], beside: str, said: str
) -> None:
    answer = olga_at.post(NEW, {**FORM, **given})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert any(said in error for error in answer.context["form"].errors[beside]), answer.context[
        "form"
    ].errors
    assert "very-secret" not in page
    assert not Site.objects.exists()


def test_new_credentials_are_of_the_same_kind(olga_at: Client) -> None:
    olga_at.post(NEW, {**FORM, "clouds_yaml": CLOUDS})
    address = "/operator/sites/at/cloud-1/credentials/"
    refused = olga_at.post(address, {"kubeconfig": "apiVersion: v1"})
    assert refused.status_code == 422
    assert "Paste the new clouds.yaml" in refused.content.decode()
    assert olga_at.post(address, TYPED).status_code == 302
    assert decrypt_json(Site.objects.get().credentials) == TYPED


OPTIONS = "/operator/sites/at/cloud-1/options/"


def test_options_are_changed_later_and_what_the_form_does_not_know_stays(olga_at: Client) -> None:
    given = {"external_network": "public", "aliases": "CUSTOM_PCI_10DE_2330 = h100"}
    olga_at.post(NEW, {**FORM, "clouds_yaml": CLOUDS, **given})
    Site.objects.update(options={**Site.objects.get().options, "later": 1})
    page = olga_at.get("/operator/sites/at/cloud-1/").content.decode()
    assert "CUSTOM_PCI_10DE_2330 = h100" in page
    SiteRound.objects.update(due_at=clock.now() + timedelta(hours=1))

    changed = {"aliases": given["aliases"], "external_network": "outside", "history_days": "90"}
    assert olga_at.post(OPTIONS, changed).status_code == 302
    site = Site.objects.get()
    assert site.options == {
        "external_network": "outside",
        "aliases": {"CUSTOM_PCI_10DE_2330": "h100"},
        "history_days": 90,
        "later": 1,
    }
    entry = AuditEntry.objects.get(action="site.update")
    told = [(part or {})["options"]["external_network"] for part in (entry.before, entry.after)]
    assert told == ["public", "outside"]
    due = SiteRound.objects.filter(site=site, kind=RoundKind.PREFLIGHT, due_at__lte=clock.now())
    assert due.exists(), "the portal tries again"


def test_of_two_operators_who_change_options_the_later_one_is_told(olga_at: Client) -> None:
    """What the portal observes meanwhile is no change of them."""
    olga_at.post(NEW, {**FORM, "clouds_yaml": CLOUDS, "external_network": "public"})
    page = words(olga_at.get("/operator/sites/at/cloud-1/"))
    read = re.findall(r'<input type="hidden" name="fingerprint" value="(\w+)"', page)
    typed = {"fingerprint": read[0], "external_network": "outside"}
    Site.objects.update(version=9)
    assert olga_at.post(OPTIONS, typed).status_code == 302
    later = olga_at.post(OPTIONS, {**typed, "external_network": "elsewhere"})
    assert (later.status_code, "have changed since you read them" in words(later)) == (422, True)
    assert 'aria-labelledby="options-title" open>' in words(later)
    assert 'value="elsewhere"' in words(later)
    assert Site.objects.get().options == {"external_network": "outside"}


@pytest.mark.parametrize(
    ("given", "beside", "said"),
    [
        ({"aliases": "H100 = h100"}, "aliases", "not a resource class of GPUs"),
        ({"aliases": "VGPU = h100:2"}, "aliases", "not a valid alias"),
        ({"aliases": "h100"}, "aliases", "One entry per line"),
        ({"history_days": "0"}, "history_days", "Enter 1 or more"),
        ({"token_cache_seconds": "soon"}, "token_cache_seconds", "whole number"),
        ({"surplus_machines": "keep"}, "surplus_machines", "Choose one of the list"),
        ({"domain": "other"}, "domain", "cannot change after"),
    ],
)
def test_options_that_cannot_be_are_refused_beside_the_field(
    olga_at: Client, given: dict[str, str], beside: str, said: str
) -> None:
    olga_at.post(NEW, {**FORM, "clouds_yaml": CLOUDS, "external_network": "public"})
    answer = olga_at.post(OPTIONS, {"external_network": "changed", **given})
    assert answer.status_code == 422
    assert 'aria-labelledby="options-title" open>' in words(answer)
    errors = answer.context["options_form"].errors
    assert any(said in error for error in errors[beside]), errors
    assert Site.objects.get().options == {"external_network": "public"}


def test_another_driver_takes_a_json_object(olga_at: Client, site: Site) -> None:
    address = f"/operator/sites/at/{site.slug}/options/"
    for wrong, said in (("{", "not valid JSON"), ("[1]", "Enter a JSON object"), ('{"oidc": 7}', "oidc")):
        answer = olga_at.post(address, {"text": wrong})
        assert answer.status_code == 422
        errors = answer.context["options_form"].errors["text"]
        assert any(said.lower() in error.lower() for error in errors), errors
    assert olga_at.post(address, {"text": '{"sites_namespaces": ["own-*"]}'}).status_code == 302
    assert Site.objects.get().options == {"sites_namespaces": ["own-*"]}
    assert "own-*" in olga_at.get(f"/operator/sites/at/{site.slug}/").content.decode()
