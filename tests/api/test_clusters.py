"""Clusters by REST: what may be ordered, what it would take, the order, every change, the way in, and the proof of the end."""

from datetime import timedelta
from typing import Any

import pytest

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster, ClusterGrant, ClusterTemplate, LedgerEntry
from gpuaas.clusters.services import template_create
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.metering.services import held_sync
from quotas.models import Limit, Reservation
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.api.caller import Answer, Caller, token_for
from tests.billing.stage import utc
from tests.clusters.stage import DOCUMENT, offered, revocations_made, settle
from tests.factories.quotas import counters_must_match, limits_give

pytestmark = pytest.mark.django_db(transaction=True)

P = "/projects/weather-lm"
HOME = f"{P}/clusters"
GPUS = "gpu:h100-sxm-80gb"
ONE_HEAD = {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [1]}
WANTED: dict[str, Any] = {
    "template": "k8s",
    "name": "train",
    "document": {"release": "1.35.6", "pools": {"gpu": {"count": 2}}},
}


@pytest.fixture
def template(as_olga: Actor, site: Site, project: Project) -> ClusterTemplate:
    limits_give(project)
    return offered(as_olga, site)


def ready(caller: Caller) -> str:
    """Ordered and made; its address."""
    made = caller.post(HOME, WANTED)
    assert made.status == 202, made.json
    settle(Cluster.objects.get(pk=made.json["id"]))
    return str(made.headers["Location"])


def rest(answer: Answer) -> Cluster:
    """What was accepted is done."""
    assert answer.status == 202, answer.json
    return settle(Cluster.objects.get(pk=answer.json["id"]))


@pytest.mark.usefixtures("template")
def test_what_may_be_ordered_and_by_which_schema(program: Caller) -> None:
    assert [row["slug"] for row in program.get(f"{P}/cluster-templates").json["results"]] == ["k8s"]
    found = program.get(f"{P}/cluster-templates/k8s").json
    assert (found["version"], found["versions"]) == (1, [1])
    assert found["definition"]["releases"] == ["1.34.9", "1.35.6", "1.36.3"]
    assert [pool["name"] for pool in found["definition"]["pools"]] == ["gpu", "small"]
    pool = found["definition"]["schema"]["properties"]["pools"]["properties"]["gpu"]["properties"]
    assert (pool["count"]["minimum"], pool["count"]["maximum"]) == (1, 8)
    assert program.get(f"{P}/cluster-templates/k8s?version=2").status == 404
    assert program.get(f"{P}/cluster-templates/none").status == 404


def test_a_template_is_seen_by_those_it_is_given_to(
    as_olga: Actor, site: Site, program: Caller, olgas: Caller
) -> None:
    offered(as_olga, site, public=False)
    mine = f"{P}/cluster-templates"
    given = "/platform/cluster-templates/k8s/organizations/climate"
    assert program.get(mine).json["results"] == []
    assert list(program.post(HOME, WANTED).error["fields"]) == ["template"]
    assert olgas.put(given, {}).status == 204
    assert [row["slug"] for row in program.get(mine).json["results"]] == ["k8s"]
    assert olgas.get("/platform/cluster-templates/k8s").json["organizations"] == ["climate"]
    assert olgas.delete(given).status == 204
    assert program.get(mine).json["results"] == []


@pytest.mark.usefixtures("template")
def test_the_plan_says_what_it_takes_costs_and_makes_and_keeps_nothing(
    program: Caller, as_olga: Actor, project: Project
) -> None:
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    plan = program.post(f"{HOME}/plan", WANTED)
    assert plan.status == 200, plan.json
    assert plan.json["fits"] is True
    assert plan.json["amounts"][GPUS] == 4
    assert plan.json["quote"]["per_hour"] == "10.00"
    assert plan.json["quote"]["to_lease_end"] is not None
    assert plan.json["usual_seconds"] is None
    assert "One machine holds the control plane" in " ".join(plan.json["warnings"])
    assert sum(one["kind"] == "machine" for one in plan.json["objects"]) == 3
    assert plan.json["document"]["parameters"]["pod_network"] == "cilium", "the defaults are told"
    Limit.objects.filter(project=project, resource=GPUS).update(hard=3)
    deficit = program.post(f"{HOME}/plan", WANTED).json
    assert deficit["fits"] is False
    short = [row for row in deficit["checks"] if not row["fits"]]
    assert [(row["scope"], row["limit"], row["used"], row["asked"]) for row in short] == [
        ("project", 3, 0, 4)
    ]
    assert not Cluster.objects.exists()
    assert not Reservation.objects.exists()


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize("where", [HOME, f"{HOME}/plan"])
def test_what_is_wrong_is_told_beside_its_field(program: Caller, where: str) -> None:
    for document, field in (
        ({"pools": {"gpu": {"count": 9}}}, "pools.gpu.count"),
        ({"release": "1.20.0"}, "release"),
        ({"parameters": {"mirrors": ["a\nb"]}}, "parameters.mirrors"),
        ({"zone": "a"}, ""),
        ([], "document"),
        ("x", "document"),
    ):
        refused = program.post(where, {**WANTED, "document": document})
        assert (refused.status, refused.code) == (400, "invalid"), document
        assert field in refused.error["fields"], refused.error
    assert program.post(where, {**WANTED, "name": "No"}).error["fields"].keys() == {"name"}
    for field, value in (("version", 7), ("template", "none")):
        assert program.post(where, {**WANTED, field: value}).error["fields"].keys() == {field}
    assert not Cluster.objects.exists()


@pytest.mark.usefixtures("template")
def test_ordered_once_however_often_it_is_sent(program: Caller) -> None:
    first = program.post(HOME, WANTED, Idempotency_Key="one")
    again = program.post(HOME, WANTED, Idempotency_Key="one")
    assert (first.status, again.status) == (202, 202)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json == first.json
    taken = program.post(HOME, WANTED)
    assert (taken.status, taken.code) == (409, "conflict")
    assert Cluster.objects.count() == 1
    counters_must_match()


@pytest.mark.usefixtures("template")
def test_over_the_limit_is_refused_with_the_numbers(program: Caller, project: Project) -> None:
    Limit.objects.filter(project=project, resource=GPUS).update(hard=3)
    refused = program.post(HOME, WANTED)
    assert (refused.status, refused.code) == (409, "quota_exceeded")
    detail = refused.error["detail"]
    assert (detail["limit"], detail["used"], detail["asked"]) == (3, 0, 4)
    assert not Cluster.objects.exists()
    counters_must_match()


@pytest.mark.usefixtures("template")
def test_from_the_order_to_the_proof(program: Caller) -> None:
    home = ready(program)
    found = program.get(home)
    assert found.headers["ETag"] == f'"{found.json["version"]}"'
    assert (found.json["state"], found.json["trouble"]) == ("ready", None)
    assert found.json["endpoint"]
    assert [(pool["name"], pool["confirmed"]) for pool in found.json["pools"]] == [("gpu", 2), ("small", 0)]
    assert len(found.json["nodes"]) == 3
    assert found.json["operation"]["kind"] == "create"
    assert {step["state"] for step in found.json["operation"]["steps"]} == {"done"}
    assert all(step["usual_seconds"] is not None for step in found.json["operation"]["steps"])
    assert {row["type"]: row["status"] for row in found.json["conditions"]}["Healthy"] == "True"

    scaled = program.patch(home, {"pools": {"gpu": 1}}, If_Match=found.headers["ETag"])
    assert scaled.json["state"] == "scaling"
    rest(scaled)
    assert program.patch(home, {"pools": {"gpu": 1}}, If_Match=found.headers["ETag"]).status == 412
    over = program.patch(home, {"pools": {"gpu": 9}})
    assert list(over.error["fields"]) == ["pools.gpu"]

    rest(program.post(f"{home}/upgrade", {"release": "1.36.3", "first_pool": "gpu"}))
    pools = {pool["name"]: pool["release"] for pool in program.get(home).json["pools"]}
    assert pools == {"gpu": "1.36.3", "small": "1.35.6"}
    assert list(program.post(f"{home}/upgrade", {"release": "1.34.9"}).error["fields"]) == ["release"]

    assert rest(program.post(f"{home}/suspend", {"reason": "for the night"})).state == "suspended"
    assert rest(program.post(f"{home}/resume", {})).state == "ready"
    later = (clock.now() + timedelta(days=60)).replace(microsecond=0)
    extended = program.patch(home, {"lease_ends_at": later.isoformat()})
    assert extended.json["lease_ends_at"] == later.strftime("%Y-%m-%dT%H:%M:%SZ")

    kinds = [row["kind"] for row in program.get(f"{home}/operations").json["results"]]
    assert kinds == ["resume", "suspend", "upgrade", "scale", "create"]
    assert program.get(f"{home}/ledger?standing=open").json["results"]
    assert program.post(f"{home}/retry", {}).code == "conflict", "nothing has failed"
    assert rest(program.delete(home)).state == "deleted"
    assert program.get(f"{home}/ledger?standing=open").json["results"] == []
    assert all(row["gone_at"] for row in program.get(f"{home}/ledger?page_size=200").json["results"])
    assert program.get(home).json["deleted_at"]
    counters_must_match()


@pytest.mark.usefixtures("template")
def test_credentials_are_listed_and_ended(program: Caller, alices: Caller, bobs: Caller) -> None:
    home = ready(program)
    for caller in (alices, bobs):
        assert caller.post(f"{home}/credential", {"lifetime_seconds": 600}).status == 201
    assert bobs.post(f"{home}/grants/revoke", {"username": "alice"}).status == 403
    assert bobs.post(f"{home}/grants/revoke", {"username": "nobody"}).status == 404
    assert alices.post(f"{home}/grants/revoke", {"user": "bob"}).status == 400
    ended = bobs.post(f"{home}/grants/revoke", {})
    assert (ended.status, ended.json) == (202, {"credentials": 1})
    assert alices.post(f"{home}/grants/revoke", {"username": "bob"}).json == {"credentials": 0}
    rows = alices.get(f"{home}/grants").json["results"]
    assert [(row["username"], row["standing"]) for row in rows] == [("bob", "ending"), ("alice", "valid")]
    assert revocations_made() == 1
    (row, _) = alices.get(f"{home}/grants").json["results"]
    assert (row["standing"], row["revoked_at"] is None) == ("revoked", False)


@pytest.mark.usefixtures("template")
def test_a_credential_is_a_members_shown_once_and_audited(
    program: Caller, bobs: Caller, bob: User, project: Project
) -> None:
    home = ready(program)
    taken = bobs.post(f"{home}/credential", {"lifetime_seconds": 600}, Idempotency_Key="k")
    assert taken.status == 201, taken.json
    assert taken.json["kind"] == "kubeconfig"
    assert taken.headers["Cache-Control"] == "no-store"
    assert bobs.post(f"{home}/credential", {"lifetime_seconds": 600}, Idempotency_Key="k").code == (
        "idempotency_replayed"
    )
    entry = AuditEntry.objects.get(action="cluster.credential")
    assert entry.actor == "bob"
    assert taken.json["document"] not in str(entry.after)
    assert ClusterGrant.objects.get().user == bob
    project.memberships.filter(user=bob).update(role="viewer")
    assert bobs.get(home).status == 200
    assert bobs.post(f"{home}/credential", {}).status == 403
    assert bobs.patch(home, {"pools": {"gpu": 1}}).status == 403
    assert bobs.delete(home).status == 403
    assert bobs.post(f"{HOME}/plan", WANTED).status == 200, (
        "whoever sees the project may see what it would take"
    )
    assert bobs.post(HOME, {**WANTED, "name": "other"}).status == 403


@pytest.mark.usefixtures("template")
def test_who_may_see_no_prices_sees_none(alice: User, project: Project, program: Caller) -> None:
    home = ready(program)
    blind = Caller(token=token_for(alice, project, scopes=["workspace:view", "workspace:create"]))
    assert program.get(home).json["cost"]["per_hour"]
    found = blind.get(home)
    assert (found.status, found.json["cost"]) == (200, None)
    assert blind.post(f"{HOME}/plan", WANTED).json["quote"] is None


@pytest.mark.usefixtures("template")
def test_other_numbers_are_tried_before_they_are_asked_for(
    program: Caller, alice: User, as_olga: Actor, project: Project
) -> None:
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    home = ready(program)
    held_sync()
    kept = sorted(Reservation.objects.values_list("resource", "amount"))
    more = program.post(f"{home}/plan", {"pools": {"gpu": 3}})
    assert (more.status, more.json["fits"], more.json["usual_seconds"]) == (200, True, None)
    assert (more.json["now"]["per_hour"], more.json["then"]["per_hour"]) == ("10.00", "15.00")
    assert {row["asked"] for row in more.json["checks"] if row["resource"] == GPUS} == {2}
    fewer = program.post(f"{home}/plan", {"pools": {"gpu": 1}})
    assert (fewer.json["fits"], fewer.json["then"]["per_hour"]) == (True, "5.00")
    Limit.objects.filter(project=project, resource=GPUS).update(hard=5)
    short = [
        row for row in program.post(f"{home}/plan", {"pools": {"gpu": 3}}).json["checks"] if not row["fits"]
    ]
    assert [(row["scope"], row["limit"], row["used"], row["asked"]) for row in short] == [
        ("project", 5, 4, 2)
    ]
    for pools, field in (({"gpu": 9}, "pools.gpu"), ({"none": 1}, "pools"), ({}, "pools"), ([], "pools")):
        refused = program.post(f"{home}/plan", {"pools": pools})
        assert (refused.status, refused.code) == (400, "invalid"), pools
        assert field in refused.error["fields"], refused.error
    blind = Caller(token=token_for(alice, project, scopes=["workspace:view"]))
    unpriced = blind.post(f"{home}/plan", {"pools": {"gpu": 1}})
    assert (unpriced.status, unpriced.json["now"], unpriced.json["then"]) == (200, None, None)
    assert sorted(Reservation.objects.values_list("resource", "amount")) == kept


@pytest.mark.usefixtures("template")
def test_filters_and_order(program: Caller, olgas: Caller, other_project: Project) -> None:
    for name in ("one", "two"):
        assert program.post(HOME, {**WANTED, "name": name}).status == 202
    first, second = (
        [row["name"] for row in program.get(f"{HOME}?order={order}").json["results"]]
        for order in ("newest", "oldest")
    )
    assert (first, second) == (["two", "one"], ["one", "two"])
    for query, found in (
        ("state=requested", 2),
        ("state=ready", 0),
        ("template=k8s", 2),
        ("template=other", 0),
        ("site=ber-1", 2),
        ("site=none", 0),
        ("search=tw", 1),
    ):
        assert len(program.get(f"{HOME}?{query}").json["results"]) == found, query
    assert program.get(f"{HOME}?order=name").status == 400
    assert len(olgas.get("/platform/clusters?template=k8s").json["results"]) == 2
    there = Cluster.objects.first()
    assert there is not None
    assert olgas.get(f"/projects/{other_project.slug}/clusters/{there.pk}").status == 404


def test_an_operator_makes_offers_and_ends_a_template(site: Site, as_olga: Actor, olgas: Caller) -> None:
    offered(as_olga, site)
    body = {"slug": "slurm", "name": "Slurm", "kind": "slurm", "site": "ber-1", "driver": "sandbox"}
    made = olgas.post("/platform/cluster-templates", body)
    assert (made.status, made.json["state"], made.json["version"]) == (201, "draft", None)
    for wrong, field in (({"site": "none"}, "site"), ({"driver": "none"}, "driver")):
        refused = olgas.post("/platform/cluster-templates", {**body, "slug": "x", **wrong})
        assert list(refused.error["fields"]) == [field]
    home = made.headers["Location"]
    assert list(olgas.patch(home, {"state": "active"}).error["fields"]) == ["state"]
    bad = olgas.post(f"{home}/versions", {"document": {**DOCUMENT, "releases": []}})
    assert bad.error["fields"]["document"] == ["releases: list 1 to 20 of them"]
    words = {**DOCUMENT, "releases": ["25.05.3"], "control_plane": ONE_HEAD}
    added = olgas.post(f"{home}/versions", {"document": words, "note": "first"})
    assert (added.status, added.json["number"], added.json["document"]) == (201, 1, words)
    stale = olgas.patch(home, {"state": "active"}, If_Match='"99"')
    assert stale.status == 412
    assert olgas.patch(home, {"state": "active", "public": True}).json["state"] == "active"
    assert olgas.patch(f"{home}/versions/1", {"deprecated": True}).json["deprecated_at"]
    assert olgas.patch(f"{home}/versions/9", {"deprecated": True}).status == 404
    assert [row["number"] for row in olgas.get(f"{home}/versions").json["results"]] == [1]


@pytest.mark.usefixtures("template")
def test_an_object_without_a_proof_is_an_orphan(program: Caller, olgas: Caller) -> None:
    home = ready(program)
    assert olgas.get("/platform/cluster-orphans").json["results"] == []
    cluster = rest(program.delete(home))
    LedgerEntry.objects.filter(cluster=cluster, kind="network").update(gone_at=None)
    (orphan,) = olgas.get("/platform/cluster-orphans").json["results"]
    assert (orphan["kind"], orphan["cluster_name"], orphan["project"]) == ("network", "train", "weather-lm")


def test_a_draft_is_not_ordered(site: Site, as_olga: Actor, program: Caller) -> None:
    template_create(actor=as_olga, slug="k8s", name="Draft", kind="kubernetes", site=site, driver="sandbox")
    assert list(program.post(HOME, WANTED).error["fields"]) == ["template"]
