"""Checks of sites and nodes by REST: operators ask, auditors read, outsiders find nothing (test_outsiders)."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import node_check_look, site_preflight, site_probe
from gpuaas.catalog.tasks import rounds_due
from gpuaas.providers.sandbox.dials import fault_set
from gpuaas.providers.sandbox.fleet import fleet_seed
from tenants.models import AuditEntry, User
from tests.api.caller import Caller

SITES = "/platform/sites"


@pytest.fixture
def probed(site: Site) -> Site:
    fleet_seed(site.pk, slug=site.slug)
    assert site_probe(site.pk)
    return site


def test_checks_with_their_remedies(olgas: Caller, probed: Site) -> None:
    fault_set(probed.pk, area="checks", name="Guards", found="False")
    asked = olgas.post(f"{SITES}/{probed.slug}/preflight")
    assert (asked.status, asked.json["preflight_at"], asked.json["checks"]) == (202, None, [])
    rounds_due()
    assert site_preflight(probed.pk)
    found = olgas.get(f"{SITES}/{probed.slug}/checks").json
    assert (found["fit"], found["sell_unfit"]) == (False, False)
    assert found["preflight_at"]
    by_type = {row["type"]: row for row in found["checks"]}
    assert by_type["Guards"]["status"] == "False"
    assert by_type["Guards"]["remedy"]
    assert by_type["QuotaController"]["status"] == "True"
    assert found["checks"][0]["status"] == "False"
    shown = olgas.get(f"{SITES}/{probed.slug}").json
    assert (shown["fit"], shown["preflight_at"]) == (False, found["preflight_at"])


def test_to_sell_all_the_same_is_a_change_of_the_site(olgas: Caller, probed: Site) -> None:
    answer = olgas.patch(f"{SITES}/{probed.slug}", {"sell_unfit": True})
    assert (answer.status, answer.json["sell_unfit"]) == (200, True)
    assert olgas.patch(f"{SITES}/{probed.slug}", {"sell_unfit": "yes"}).status == 400
    assert olgas.patch(f"{SITES}/{probed.slug}", {"fit": True}).status == 400


def test_a_disabled_site_is_not_looked_at(olgas: Caller, probed: Site) -> None:
    olgas.patch(f"{SITES}/{probed.slug}", {"enabled": False})
    assert olgas.post(f"{SITES}/{probed.slug}/preflight").code == "conflict"
    assert olgas.post(f"{SITES}/{probed.slug}/node-checks", {"node": "h100-01"}).code == "conflict"


def test_a_node_is_checked_and_its_output_shown(olgas: Caller, probed: Site) -> None:
    made = olgas.post(f"{SITES}/{probed.slug}/node-checks", {"node": "h100-01"})
    assert (made.status, made.json["state"], made.json["site"]) == (202, "waiting", probed.slug)
    again = olgas.post(f"{SITES}/{probed.slug}/node-checks", {"node": "h100-01"})
    assert again.code == "conflict"
    node_check_look(made.json["id"])
    found = olgas.get(made.headers["Location"]).json
    assert found["state"] == "running"
    assert olgas.get(f"{SITES}/{probed.slug}/node-checks").json["results"] == [found]
    assert AuditEntry.objects.filter(action="node.check").count() == 1


def test_a_key_makes_a_repetition_safe(olgas: Caller, probed: Site) -> None:
    asks = [
        olgas.post(f"{SITES}/{probed.slug}/node-checks", {"node": "h100-01"}, Idempotency_Key="one")
        for _ in range(2)
    ]
    assert [ask.status for ask in asks] == [202, 202]
    assert asks[0].json["id"] == asks[1].json["id"]


@pytest.mark.parametrize(
    "body", [{}, {"node": ""}, {"node": "no-such"}, {"node": "cpu-01"}, {"node": 1}, {"nodes": "h100-01"}]
)
def test_bad_input_is_refused_beside_its_field(olgas: Caller, probed: Site, body: dict[str, object]) -> None:
    answer = olgas.post(f"{SITES}/{probed.slug}/node-checks", body)
    assert answer.status == 400
    assert answer.error["fields"].keys() & {"node", "nodes"}


def test_another_sites_check_is_not_there(olgas: Caller, probed: Site) -> None:
    made = olgas.post(f"{SITES}/{probed.slug}/node-checks", {"node": "h100-01"}).json
    Site.objects.create(slug="other", name="Other", driver="sandbox")
    assert olgas.get(f"{SITES}/other/node-checks/{made['id']}").status == 404
    assert olgas.get(f"{SITES}/other/node-checks").json["results"] == []


def test_nodes_tell_what_holds_them_up(olgas: Caller, probed: Site) -> None:
    fault_set(probed.pk, area="nodes", name="h100-01", found={"GpuDriver": "False"})
    site_probe(probed.pk)
    pools = olgas.get("/platform/capacity").json["results"]
    nodes = {node["name"]: node for pool in pools for node in pool["nodes"] if pool["site"] == probed.slug}
    driver = next(row for row in nodes["h100-01"]["checks"] if row["type"] == "GpuDriver")
    assert driver["status"] == "False"
    assert driver["remedy"]
    assert all(row["status"] == "True" for row in nodes["h100-02"]["checks"])


def test_auditors_read(olga: User, probed: Site) -> None:
    olga.platform_role = "auditor"
    olga.save()
    caller = Caller(olga)
    assert caller.get(f"{SITES}/{probed.slug}/checks").status == 200
    assert caller.post(f"{SITES}/{probed.slug}/preflight").status == 403
    assert caller.post(f"{SITES}/{probed.slug}/node-checks", {"node": "h100-01"}).status == 403
