"""What the page of a site says while an operator has not confirmed it, and of what the portal does not know."""

import uuid

import pytest

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_probe, site_update
from gpuaas.clusters.models import Cluster
from gpuaas.core.errors import NotFound
from gpuaas.providers.sandbox.models import SandboxClusterObject, SandboxNamespace, SandboxSite
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters import stage as clusters
from tests.workspaces.stage import ready, run_now

pytestmark = pytest.mark.django_db(transaction=True)


def shown_of(site: Site) -> tuple[str, str, str] | None:
    assert site_probe(site.pk)
    found = Site.objects.get(pk=site.pk).conditions.get("Confirmed")
    return found and (found["status"], found["reason"], found["message"])


def test_what_is_marked_for_nobody_is_named(
    site: Site, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    clusters.offered(as_olga, site)
    kept, gone = (ready(as_alice, project, site, name=name) for name in ("kept", "gone"))
    one = clusters.ready(as_alice, project, name="sim")
    assert shown_of(site) is None
    Workspace.objects.filter(pk=gone.pk).update(state="deleted")
    Cluster.objects.filter(pk=one.pk).update(state="deleted")
    SandboxNamespace.objects.create(site_id=site.pk, name="of-others", owner=None)
    status, reason, message = shown_of(site) or ("", "", "")
    assert (status, reason) == ("True", "Strangers")
    assert gone.external_name in message
    assert any(row.name in message for row in SandboxClusterObject.objects.filter(tag=one.pk))
    assert kept.external_name not in message
    assert "of-others" not in message
    site_update(actor=as_olga, site=site, confirmed=False)
    status, reason, message = shown_of(site) or ("", "", "")
    assert (status, reason) == ("False", "Unconfirmed")
    assert message.startswith("Since the database was restored")
    assert gone.external_name in message


def test_of_very_many_only_some_are_named(site: Site) -> None:
    SandboxSite.objects.get_or_create(site_id=site.pk)
    for number in range(30):
        SandboxNamespace.objects.create(site_id=site.pk, name=f"gpu-{number:02}-x", owner=uuid.uuid4())
    *_, message = shown_of(site) or ("", "", "")
    assert "gpu-19-x and 10 more" in message


def test_an_operator_alone_confirms(site: Site, as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        site_update(actor=as_alice, site=site, confirmed=False)


def test_what_is_ordered_waits_and_says_why(
    site: Site, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    row = ready(as_alice, project, site)
    site_update(actor=as_olga, site=site, confirmed=False)
    SandboxNamespace.objects.filter(owner=row.pk).delete()
    row = run_now(row)
    assert row.conditions["Progressing"]["reason"] == "Unconfirmed"
    assert "An operator compares the site" in row.conditions["Progressing"]["remedy"]
    assert not SandboxNamespace.objects.filter(owner=row.pk).exists()
    site_update(actor=as_olga, site=site, confirmed=True)
    row = run_now(row)
    assert SandboxNamespace.objects.filter(owner=row.pk).exists()
    assert "Progressing" not in row.conditions
