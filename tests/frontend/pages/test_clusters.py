"""Pages of clusters without a browser: what a form posts, what is refused beside its field, what a page says."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterGrant, ClusterTemplate, TemplateVersion
from gpuaas.clusters.services import template_version_add
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.services import project_member_remove
from tests.clusters.stage import DOCUMENT, document, offered, order
from tests.factories.quotas import limits_give
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.scene import grant_of_cluster

pytestmark = pytest.mark.django_db
HOME = "/p/weather-lm/clusters/"
ORDER = f"{HOME}new/k8s/"
OFFER = "/operator/cluster-templates/of/k8s/"
POSTED = {
    "name": "train",
    "lease": "7",
    "number": "1",
    "release": "1.35.6",
    "control_plane": "1",
    "pools.gpu.flavor": "h100.2",
    "pools.gpu.count": "2",
    "pools.small.flavor": "l40s.1",
    "pools.small.count": "0",
    "addons.monitoring": "on",
    "parameters.pod_network": "calico",
    "parameters.mirrors": "one\r\ntwo",
}


@pytest.fixture
def template(as_olga: Actor, site: Site, project: Project) -> ClusterTemplate:
    limits_give(project)
    return offered(as_olga, site)


def text_of(response: Any) -> str:
    return str(response.content.decode())


def test_without_a_template_the_page_says_whom_to_ask(alice_at: Client, project: Project) -> None:
    assert "No clusters are offered here" in text_of(alice_at.get(HOME))
    assert "Nothing is offered here" in text_of(alice_at.get(f"{HOME}new/"))


@pytest.mark.usefixtures("template")
def test_the_form_orders_what_it_shows(alice_at: Client) -> None:
    made = alice_at.post(ORDER, POSTED)
    assert made.status_code == 302, text_of(made)
    cluster = Cluster.objects.get()
    assert made["Location"] == reverse("frontend:cluster", args=["weather-lm", cluster.pk])
    assert (cluster.release, cluster.addons) == ("1.35.6", ["gpu-operator", "monitoring"])
    assert cluster.parameters == {"pod_network": "calico", "mirrors": ["one", "two"]}
    assert {pool.name: pool.count for pool in cluster.pools.all()} == {"gpu": 2, "small": 0}
    again = alice_at.post(ORDER, POSTED)
    assert again["Location"] == made["Location"], "a second press of the button is the first one"
    assert alice_at.post(ORDER, {**POSTED, "pools.gpu.count": "1"}).status_code == 422
    assert Cluster.objects.count() == 1


@pytest.mark.usefixtures("template")
def test_what_is_on_by_default_can_be_turned_off(alice_at: Client) -> None:
    posted = {name: value for name, value in POSTED.items() if name != "addons.monitoring"}
    assert alice_at.post(ORDER, posted).status_code == 302
    assert Cluster.objects.get().addons == ["gpu-operator"]


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("pools.gpu.count", "9", "A whole number of at most 8."),
        ("pools.gpu.count", "", "This is needed."),
        ("pools.gpu.count", "two", "A whole number."),
        ("release", "1.0.0", "Choose one of"),
        ("parameters.boot_seconds", "0", "A whole number of at least 1."),
        ("name", "No Such", "Use 1 to 20 lower-case letters"),
        ("name", "a\x00b", "Null characters are not allowed."),
        ("lease", "date", "Choose the day and hour"),
    ],
)
def test_a_refusal_stands_beside_its_field(alice_at: Client, name: str, value: str, said: str) -> None:
    refused = alice_at.post(ORDER, {**POSTED, name: value})
    assert refused.status_code == 422
    assert said in text_of(refused)
    assert not Cluster.objects.exists()
    answer = text_of(alice_at.post(f"{ORDER}answer/", {**POSTED, name: value}))
    assert "Something cannot be read" in answer
    assert "disabled" in answer


@pytest.mark.usefixtures("template")
def test_over_the_limit_the_answer_says_by_how_much(alice_at: Client, project: Project) -> None:
    limits_give(project, {"gpu:h100-sxm-80gb": 3})
    answer = text_of(alice_at.post(f"{ORDER}answer/", POSTED))
    assert "weather-lm may hold 3 h100-sxm-80gb GPUs" in answer
    assert "0 are held, you ask for 4 more: 1 too many." in answer
    refused = alice_at.post(ORDER, POSTED)
    assert refused.status_code == 422
    assert "Not ordered" in text_of(refused)


def test_the_version_that_was_read_is_ordered(
    alice_at: Client, as_olga: Actor, template: ClusterTemplate
) -> None:
    template_version_add(actor=as_olga, template=template, document=document(releases=["1.36.3"]))
    assert alice_at.post(ORDER, POSTED).status_code == 302
    assert Cluster.objects.get().template_version.number == 1
    assert 'name="number" value="2"' in text_of(alice_at.get(ORDER))


@pytest.mark.usefixtures("template")
def test_a_failure_says_why_what_was_seen_and_what_to_do(
    alice_at: Client, as_alice: Actor, project: Project
) -> None:
    cluster = order(as_alice, project)
    trouble = {"step": "api", "cause": "no host has room", "evidence": ["409 from nova"], "next": "Ask."}
    Cluster.objects.filter(pk=cluster.pk).update(state="failed", trouble=trouble)
    page = text_of(alice_at.get(f"{HOME}{cluster.pk}/"))
    for words in ("No host has room. Ask.", "409 from nova", "Try again"):
        assert words in page
    assert alice_at.get(HOME + "?state=failed").status_code == 200
    assert "No cluster matches" in text_of(alice_at.get(HOME + "?q=zzz"))


@pytest.mark.usefixtures("template")
def test_a_viewer_looks_and_a_wrong_name_deletes_nothing(
    alice_at: Client, dora_at: Client, as_alice: Actor, project: Project
) -> None:
    cluster = order(as_alice, project)
    at = f"{HOME}{cluster.pk}/"
    page = text_of(dora_at.get(at))
    for words in ("Delete", "Get kubeconfig", ">Scale"):
        assert words not in page
    assert dora_at.get(f"{HOME}new/").status_code == 403
    for name in ("delete", "suspend", "upgrade", "extend", "credential"):
        assert dora_at.post(f"{at}{name}/", {"confirm_name": "train"}).status_code == 403
    alice_at.post(f"{at}delete/", {"confirm_name": "wrong"})
    assert Cluster.objects.get().state == "requested"
    assert alice_at.post(f"{at}delete/", {"confirm_name": "train"}).status_code == 302
    assert Cluster.objects.get().state == "deleting"


@pytest.mark.usefixtures("template")
def test_who_holds_credentials_is_seen_and_their_end_is_asked_twice(
    alice_at: Client, bob_at: Client, charlie_at: Client, as_alice: Actor, bob: User, project: Project
) -> None:
    cluster = order(as_alice, project)
    at = f"{HOME}{cluster.pk}/"
    assert "Who has credentials" not in text_of(alice_at.get(at))
    for holder in (cluster.created_by, bob):
        grant_of_cluster(cluster, holder)
    end = f"{at}credentials/{bob.pk}/revoke/"
    hers = text_of(bob_at.get(at))
    assert "the credentials of bob" in hers
    assert "the credentials of alice" not in hers, "another's are ended by who manages the project"
    assert bob_at.get(f"{at}credentials/{cluster.created_by_id}/revoke/").status_code == 403
    for method in (charlie_at.get, charlie_at.post):
        assert method(end).status_code == 404
    asked = text_of(alice_at.get(end))
    assert "End the credentials of bob?" in asked
    assert "<html" not in text_of(alice_at.get(end, headers={"HX-Request": "true"})), "into the drawer"
    assert not ClusterGrant.objects.exclude(revoke_asked_at=None).exists(), "asking ends nothing"
    assert alice_at.post(end).status_code == 302
    page = text_of(alice_at.get(at))
    assert "being ended" in page
    assert "1 credential of bob will be ended." in page
    assert "the credentials of bob" not in page


@pytest.mark.usefixtures("template")
def test_what_cannot_be_ended_early_says_until_when_it_works(
    alice_at: Client, as_alice: Actor, bob: User, project: Project
) -> None:
    cluster = order(as_alice, project)
    ClusterTemplate.objects.update(driver="openstack")
    grant_of_cluster(cluster, bob)
    at = f"{HOME}{cluster.pk}/"
    page = text_of(alice_at.get(at))
    assert "cannot be ended early: each works until its time" in page
    assert "may not enter any more" not in page
    project_member_remove(actor=as_alice, project=project, user=bob)
    page = text_of(alice_at.get(at))
    assert "may not enter any more, but this cannot be ended early" in page
    assert "the credentials of bob" not in page


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("posted", "said"),
    [
        ('{"releases": [', "This is no JSON"),
        ("", "This is no JSON"),
        ("[" * 50_000, "This is no JSON"),
        ("[]", "This is a JSON object."),
        (json.dumps(document(releases=[])), "Releases: list 1 to 20 of them."),
        (json.dumps(document(pools=[{**DOCUMENT["pools"][0], "flavors": ["none"]}])), "has no flavor"),
    ],
)
def test_a_document_is_refused_beside_its_field(olga: User, posted: str, said: str) -> None:
    client = signed_in(olga)
    refused = client.post(f"{OFFER}versions/", {"document": posted})
    assert refused.status_code == 422
    assert said in text_of(refused)
    assert TemplateVersion.objects.count() == 1


@pytest.mark.usefixtures("template")
def test_an_operator_uploads_offers_and_takes_back(olga: User, project: Project, alice_at: Client) -> None:
    client = signed_in(olga)
    file = SimpleUploadedFile("next.json", json.dumps(DOCUMENT).encode())
    assert client.post(f"{OFFER}versions/", {"file": file, "note": "from a file"}).status_code == 302
    assert TemplateVersion.objects.latest("number").note == "from a file"
    assert "The file is no text." in text_of(
        client.post(f"{OFFER}versions/", {"file": SimpleUploadedFile("x", b"\xff\xfe\x00")})
    )
    assert client.post(f"{OFFER}offer/", {"state": "deprecated"}).status_code == 302
    assert alice_at.get(ORDER).status_code == 404
    give = {"organization": project.organization.slug, "granted": "yes"}
    assert client.post(f"{OFFER}give/", give).status_code == 302
    assert "is deprecated" in text_of(alice_at.get(ORDER))
    assert client.post(f"{OFFER}offer/", {"state": "draft"}).status_code == 422
    assert client.post(f"{OFFER}versions/1/deprecate/").status_code == 302
    assert "Deprecated" in text_of(client.get(OFFER))
    assert client.post(f"{OFFER}offer/", {"state": "retired"}).status_code == 302
    assert alice_at.get(ORDER).status_code == 404
