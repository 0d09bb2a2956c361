"""Pages of clusters without a browser: what a form posts, what is refused beside its field, what a page says."""

import json
import re
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import (
    Cluster,
    ClusterGrant,
    ClusterLogin,
    ClusterQueue,
    ClusterTemplate,
    TemplateVersion,
)
from gpuaas.clusters.services import template_version_add
from gpuaas.core.clock import now
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.services import project_member_remove
from tests.clusters.stage import DOCUMENT, document, offered, order
from tests.factories.quotas import limits_give
from tests.frontend.markup import asks_again, words
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.scene import grant_of_cluster
from tests.lasting import lasting

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
@lasting
def template(as_olga: Actor, site: Site, project: Project) -> ClusterTemplate:
    limits_give(project)
    return offered(as_olga, site)


def test_without_a_template_the_page_says_whom_to_ask(alice_at: Client, project: Project) -> None:
    assert "No clusters are offered here" in words(alice_at.get(HOME))
    assert "No clusters are offered here" in words(alice_at.get(f"{HOME}new/"))


@pytest.mark.usefixtures("template")
def test_the_form_orders_what_it_shows(alice_at: Client) -> None:
    made = alice_at.post(ORDER, POSTED)
    assert made.status_code == 302, words(made)
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
        ("pools.gpu.count", "", "Enter a value."),
        ("pools.gpu.count", "two", "A whole number."),
        ("release", "1.0.0", "Choose one of"),
        ("parameters.boot_seconds", "0", "A whole number of at least 1."),
        ("name", "No Such", "Use 1 to 20 lower-case letters"),
        ("name", "a\x00b", "Null characters are not allowed."),
        ("lease", "date", "Choose the date and time"),
    ],
)
def test_a_refusal_stands_beside_its_field(alice_at: Client, name: str, value: str, said: str) -> None:
    refused = alice_at.post(ORDER, {**POSTED, name: value})
    assert refused.status_code == 422
    assert said in words(refused)
    assert not Cluster.objects.exists()
    answer = words(alice_at.post(f"{ORDER}answer/", {**POSTED, name: value}))
    assert "Check your input" in answer
    assert "data-blocked" in answer
    field = {"lease": "lease_ends_at"}.get(name, name)
    help_text = f'<p class="invalid-feedback" id="id_{field}-help" hx-swap-oob="true">'
    assert said in answer.partition(help_text)[2].partition("</p>")[0]


@pytest.mark.usefixtures("template")
def test_what_would_be_created_is_counted(alice_at: Client) -> None:
    answer = words(alice_at.post(f"{ORDER}answer/", POSTED))
    for created in ("3 machines", "1 network", "1 load balancer", "2 add-ons"):
        assert created in answer, created


@pytest.mark.usefixtures("template")
def test_what_is_typed_is_answered_field_by_field(alice_at: Client) -> None:
    """No name, a name that is taken, a day that is over: the answer is not green, or has nothing to press."""
    nameless = words(alice_at.post(f"{ORDER}answer/", {**POSTED, "name": ""}))
    assert "Available now" in nameless
    assert "Enter a name first." in nameless
    assert "data-blocked" in nameless
    assert "data-blocked" not in words(alice_at.post(f"{ORDER}answer/", POSTED))
    past = words(alice_at.post(f"{ORDER}answer/", {**POSTED, "lease_ends_at": "2020-01-01T00:00"}))
    assert "A lease must end in the future" in past
    assert "Available now" not in past
    alice_at.post(ORDER, POSTED)
    for form in (POSTED, POSTED | {"pools.gpu.count": "two"}):
        taken = words(alice_at.post(f"{ORDER}answer/", form))
        assert "already has a cluster called" in taken.partition('id="id_name-help"')[2].partition("</p>")[0]
        assert "Available now" not in taken
        assert "data-blocked" in taken
        assert ": " in taken.partition('class="g-reason"')[2], "what is wrong, and in which field"


@pytest.mark.usefixtures("template")
def test_over_the_limit_the_answer_says_by_how_much(alice_at: Client, project: Project) -> None:
    limits_give(project, {"gpu:h100-sxm-80gb": 3})
    answer = words(alice_at.post(f"{ORDER}answer/", POSTED))
    assert "weather-lm may hold at most 3 H100 SXM 80 GB GPUs" in answer
    assert "Held: 0. Requested: 4. Available: 3." in answer
    refused = alice_at.post(ORDER, POSTED)
    assert refused.status_code == 422
    told = re.search(r'<input [^>]*id="id_pools.gpu.count"[^>]*>', words(refused))
    assert told
    assert 'aria-invalid="true"' in told[0]


def test_the_version_that_was_read_is_ordered(
    alice_at: Client, as_olga: Actor, template: ClusterTemplate
) -> None:
    template_version_add(actor=as_olga, template=template, document=document(releases=["1.36.3"]))
    assert alice_at.post(ORDER, POSTED).status_code == 302
    assert Cluster.objects.get().template_version.number == 1
    assert 'name="number" value="2"' in words(alice_at.get(ORDER))


@pytest.mark.usefixtures("template")
def test_a_failure_says_why_what_was_seen_and_what_to_do(
    alice_at: Client, as_alice: Actor, project: Project
) -> None:
    cluster = order(as_alice, project)
    trouble = {"step": "api", "cause": "no host has room", "evidence": ["409 from nova"], "next": "Ask."}
    Cluster.objects.filter(pk=cluster.pk).update(state="failed", trouble=trouble)
    page = words(alice_at.get(f"{HOME}{cluster.pk}/"))
    for part in ("No host has room. Ask.", "409 from nova", "Try again"):
        assert part in page
    assert alice_at.get(HOME + "?state=failed").status_code == 200
    assert "No clusters match" in words(alice_at.get(HOME + "?q=zzz"))


@pytest.mark.usefixtures("template")
def test_a_viewer_looks_and_a_wrong_name_deletes_nothing(
    alice_at: Client, dora_at: Client, as_alice: Actor, project: Project
) -> None:
    cluster = order(as_alice, project)
    at = f"{HOME}{cluster.pk}/"
    page = words(dora_at.get(at))
    for part in ("Delete", "Get kubeconfig", ">Scale"):
        assert part not in page
    assert dora_at.get(f"{HOME}new/").status_code == 403
    for name in ("delete", "suspend", "upgrade", "extend", "credential"):
        assert dora_at.post(f"{at}{name}/", {"confirm_name": "train"}).status_code == 403
    assert asks_again(alice_at.post(f"{at}delete/", {"confirm_name": "wrong"}), "delete", "wrong")
    assert Cluster.objects.get().state == "requested"
    assert alice_at.post(f"{at}delete/", {"confirm_name": "train"}).status_code == 302
    assert Cluster.objects.get().state == "deleting"


@pytest.mark.usefixtures("template")
def test_who_holds_credentials_is_seen_and_their_end_is_asked_twice(
    alice_at: Client, bob_at: Client, charlie_at: Client, as_alice: Actor, bob: User, project: Project
) -> None:
    cluster = order(as_alice, project)
    at = f"{HOME}{cluster.pk}/"
    assert "Who has credentials" not in words(alice_at.get(at))
    for holder in (cluster.created_by, bob):
        grant_of_cluster(cluster, holder)
    end = f"{at}credentials/{bob.pk}/revoke/"
    hers = words(bob_at.get(at))
    assert "the credentials of bob" in hers
    assert "the credentials of alice" not in hers, "another's are ended by who manages the project"
    assert bob_at.get(f"{at}credentials/{cluster.created_by_id}/revoke/").status_code == 403
    for method in (charlie_at.get, charlie_at.post):
        assert method(end).status_code == 404
    asked = words(alice_at.get(end))
    assert "Revoke the credentials of bob?" in asked
    assert "<html" not in words(alice_at.get(end, headers={"HX-Request": "true"})), "into the drawer"
    assert not ClusterGrant.objects.exclude(revoke_asked_at=None).exists(), "asking ends nothing"
    assert alice_at.post(end).status_code == 302
    page = words(alice_at.get(at))
    assert "being revoked" in page
    assert "1 credential of bob will be revoked." in page
    assert "the credentials of bob" not in page


@pytest.mark.usefixtures("template")
def test_what_cannot_be_ended_early_says_until_when_it_works(
    alice_at: Client, as_alice: Actor, bob: User, project: Project
) -> None:
    cluster = order(as_alice, project)
    ClusterTemplate.objects.update(driver="openstack")
    grant_of_cluster(cluster, bob)
    at = f"{HOME}{cluster.pk}/"
    page = words(alice_at.get(at))
    assert "cannot be revoked early. Each works until it expires" in page
    assert "has no access any more" not in page
    project_member_remove(actor=as_alice, project=project, user=bob)
    page = words(alice_at.get(at))
    assert "has no access any more, but the credential cannot be revoked early" in page
    assert "the credentials of bob" not in page


@pytest.mark.usefixtures("template")
def test_accounts_on_the_machines_are_listed_with_their_people(
    alice_at: Client, as_alice: Actor, bob: User, project: Project
) -> None:
    cluster = order(as_alice, project)
    ClusterTemplate.objects.update(driver="openstack")
    at = f"{HOME}{cluster.pk}/"
    ClusterLogin.objects.create(project=project, user=bob, name="bob-2", uid=20_001)
    grant_of_cluster(cluster, bob)
    assert "Accounts on the cluster" not in words(alice_at.get(at)), "all members share one"
    for inside, state in (([], "account of bob, being made"), (["bob-2"], "account of bob")):
        Cluster.objects.filter(pk=cluster.pk).update(logins=inside)
        assert state in " ".join(words(alice_at.get(at)).split())
    project_member_remove(actor=as_alice, project=project, user=bob)
    page = words(alice_at.get(at))
    for part in ("being locked", "the cluster is shutting them out", "or its holder may not enter any more"):
        assert part in page
    Cluster.objects.filter(pk=cluster.pk).update(logins=[])
    assert "being locked" not in words(alice_at.get(at))


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("posted", "said"),
    [
        ('{"releases": [', "This is not valid JSON"),
        ("", "Paste a document or choose its file."),
        ("[" * 50_000, "This is not valid JSON"),
        ("[]", "This must be a JSON object."),
        (json.dumps(document(releases=[])), "Releases: list 1 to 20 of them."),
        (json.dumps(document(pools=[{**DOCUMENT["pools"][0], "flavors": ["none"]}])), "has no flavor"),
    ],
)
def test_a_document_is_refused_beside_its_field(olga: User, posted: str, said: str) -> None:
    client = signed_in(olga)
    refused = client.post(f"{OFFER}versions/", {"document": posted})
    assert refused.status_code == 422
    assert said in words(refused)
    assert TemplateVersion.objects.count() == 1


@pytest.mark.usefixtures("template")
def test_an_operator_uploads_offers_and_takes_back(olga: User, project: Project, alice_at: Client) -> None:
    client = signed_in(olga)
    file = SimpleUploadedFile("next.json", json.dumps(DOCUMENT).encode())
    assert client.post(f"{OFFER}versions/", {"file": file, "note": "from a file"}).status_code == 302
    assert TemplateVersion.objects.latest("number").note == "from a file"
    assert "The file is not text." in words(
        client.post(f"{OFFER}versions/", {"file": SimpleUploadedFile("x", b"\xff\xfe\x00")})
    )
    assert client.post(f"{OFFER}offer/", {"state": "deprecated"}).status_code == 302
    assert alice_at.get(ORDER).status_code == 404
    give = {"organization": project.organization.slug, "granted": "yes"}
    assert client.post(f"{OFFER}give/", give).status_code == 302
    assert "is deprecated" in words(alice_at.get(ORDER))
    assert client.post(f"{OFFER}offer/", {"state": "draft"}).status_code == 422
    assert client.post(f"{OFFER}versions/1/deprecate/").status_code == 302
    assert "Deprecated" in words(client.get(OFFER))
    assert client.post(f"{OFFER}offer/", {"state": "retired"}).status_code == 302
    assert alice_at.get(ORDER).status_code == 404


def test_an_order_without_room_says_so_beside_the_count_that_asks_for_it(
    alice_at: Client, template: ClusterTemplate, project: Project
) -> None:
    """Before it is sent and where it is refused."""
    limits_give(project, {"gpu:h100-sxm-80gb": 1})
    beside = 'id="id_pools.gpu.count-help"'
    answer = words(alice_at.post(f"{ORDER}answer/", POSTED))
    assert "may hold at most 1 H100 SXM 80 GB GPUs" in answer.partition(beside)[2].partition("</p>")[0]
    refused = alice_at.post(ORDER, POSTED)
    assert refused.status_code == 422
    assert "h100-sxm-80gb" in words(refused).partition(beside)[2].partition("</p>")[0]
    assert "Not ordered" not in words(refused)
    assert not Cluster.objects.exists()


def test_trying_again_tells_its_effect_before(
    alice_at: Client, as_alice: Actor, template: ClusterTemplate, project: Project
) -> None:
    cluster = order(as_alice, project)
    Cluster.objects.filter(pk=cluster.pk).update(state="failed", trouble={"cause": "No host has room."})
    at = f"{HOME}{cluster.pk}/"
    page = alice_at.get(at).content.decode()
    assert 'data-dialog="retry"' in page
    assert f'hx-post="{at}retry/effect/"' in page
    effect = words(alice_at.post(f"{at}retry/effect/"))
    for said in ("What it needs is still reserved", "Per hour now", "Per hour then"):
        assert said in effect, said
    cluster.refresh_from_db()
    assert cluster.state == "failed"


def test_scaling_and_extending_say_what_they_cost_and_press_nothing_in_vain(
    alice_at: Client, as_alice: Actor, template: ClusterTemplate, project: Project
) -> None:
    cluster = order(as_alice, project, gpus=2)
    Cluster.objects.filter(pk=cluster.pk).update(state="ready")
    at = f"{HOME}{cluster.pk}/"
    assert "Nothing has changed yet." in words(alice_at.get(f"{at}scale/"))
    for count, reason in (("99", "outside the bounds of its pools"), ("x", "Enter a whole number.")):
        text = words(alice_at.post(f"{at}scale/effect/", {"pools.gpu": count, "pools.small": "0"}))
        button = text.partition('id="change-button"')[2]
        assert "data-blocked" in button
        assert reason in button
    ClusterQueue.objects.create(
        cluster=cluster,
        pools=[{"pool": "gpu", "used_gpus": 2, "pending_gpus": 0, "queued": 0}],
        workers={"gpu": {"busy": [2], "least": 2, "drain": ""}},
        told_at=now(),
    )
    ending = words(alice_at.post(f"{at}scale/effect/", {"pools.gpu": "1", "pools.small": "0"}))
    assert "Work runs on worker 2 of the pool gpu: it ends when the pool shrinks." in ending
    planned = alice_at.post(
        f"/api/v1/projects/weather-lm/clusters/{cluster.pk}/plan",
        {"pools": {"gpu": 1}},
        content_type="application/json",
    )
    assert planned.json()["warnings"] == [
        "Work runs on worker 2 of the pool gpu: it ends when the pool shrinks."
    ]
    limits_give(project, {"gpu:h100-sxm-80gb": 4})
    over = words(alice_at.post(f"{at}scale/effect/", {"pools.gpu": "8", "pools.small": "0"}))
    assert "exceeds the limit" in over.partition('id="change-button"')[2]
    end = cluster.lease_ends_at + timedelta(days=7)
    until = f"{end.astimezone(ZoneInfo('Europe/Berlin')):%Y-%m-%dT%H:%M}"
    longer = words(alice_at.post(f"{at}extend/effect/", {"until": until}))
    assert "longer" in longer
    assert "Added cost" in longer
    assert "data-blocked" not in longer
    past = words(alice_at.post(f"{at}extend/effect/", {"until": "2020-01-01T00:00"}))
    assert "in the future" in past
    assert "data-blocked" in past


def test_what_cannot_be_scaled_now_says_why_and_shows_no_numbers(
    alice_at: Client, as_alice: Actor, template: ClusterTemplate, project: Project
) -> None:
    cluster = order(as_alice, project, gpus=2)
    at = f"{HOME}{cluster.pk}/"
    for became, why in (
        ({"state": "suspended"}, "This cannot be done while the cluster is suspended; resume it first."),
        ({"state": "ready", "lease_ends_at": now()}, "The lease has ended: extend it first."),
    ):
        Cluster.objects.filter(pk=cluster.pk).update(**became)
        for text in (
            words(alice_at.get(f"{at}scale/")),
            words(alice_at.post(f"{at}scale/effect/", {"pools.gpu": "3", "pools.small": "0"})),
        ):
            assert why in text.partition('id="change-button"')[2]
            assert "g-meter" not in text
        assert why in words(alice_at.get(at))


@pytest.mark.usefixtures("template")
def test_an_order_at_a_site_that_is_not_confirmed_says_that_it_waits(alice_at: Client, site: Site) -> None:
    waits = "waits until an operator has confirmed the site."
    assert waits not in words(alice_at.get(ORDER))
    Site.objects.update(confirmed=False)
    assert f"What is ordered at {site.slug} {waits}" in words(alice_at.get(ORDER))
