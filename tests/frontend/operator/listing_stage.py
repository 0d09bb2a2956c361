"""Two or more of everything that the console lists."""

import uuid
from datetime import date, datetime, timedelta

from allauth.usersessions.models import UserSession
from django.test import Client

from billing.models import Discount, MonthClose, RateCard, UsageWriteOff
from billing.months import month_of, month_previous, month_span
from gpuaas.catalog.models import Site, StorageClass
from gpuaas.clusters.models import Cluster, ClusterJob, ClusterLogin, LedgerEntry
from gpuaas.core import clock
from gpuaas.core.models import Process
from gpuaas.environments.services import kind_version_add
from gpuaas.metering.models import CrossCheck
from gpuaas.workspaces.machines.models import Machine, PublicKey
from gpuaas.workspaces.models import Adoption, Workspace
from quotas.models import CapacityStretch
from tenants.actors import SYSTEM
from tenants.models import ApiToken, Project, Tries, User
from tenants.selectors import actor_for
from tenants.services import token_create
from tests.api.cluster_stage import TEMPLATE, cluster_rows, cluster_stage
from tests.billing.stage import (
    budget_stage,
    card_stage,
    grant_stage,
    interval_make,
    pool_stage,
    usage_import_stage,
    usage_write_off_stage,
)
from tests.clusters.host_stage import host_at
from tests.environments import stage as environments
from tests.factories.billing import invoice_make
from tests.factories.catalog import SiteFactory
from tests.factories.tenants import (
    OrganizationFactory,
    OrganizationMembershipFactory,
    ProjectMembershipFactory,
    UserFactory,
)
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.trouble import drift_of, eviction_of
from tests.frontend.pages.scene import grant_of_cluster, grant_to, robot_of
from tests.gpustats.stage import keep, reading
from tests.jobs import stage as jobs


def everything_twice(workspace: Workspace, *, alice: User, olga: User, bob: User) -> dict[str, str]:
    """Two or more of everything that is listed; the ids that addresses ask for, by name."""
    project, site, now = workspace.project, workspace.site, clock.now()
    room = copied(workspace, "room", SiteFactory.create(slug="ham-1", driver="sandbox-cloud"))
    as_alice = actor_for(user=alice)
    for name in ("alpha", "Beta"):
        copied(workspace, name, site)
        Project.objects.create(organization=project.organization, slug=f"p-{name.lower()}", name=name)
        Machine.objects.create(workspace=room, name=name, created_at=now)
        host_at(site, len(name))
        StorageClass.objects.create(site=site, name=name.lower(), observed_at=now)
        PublicKey.objects.create(user=olga, name=name, public_key=name, fingerprint=name, created_at=now)
        UserFactory.create(username=f"z-{name}")
        soon, scopes = now + timedelta(days=9), ["project:view"]
        token_create(actor=as_alice, project=project, name=name, scopes=scopes, expires_at=soon)
    OrganizationFactory.create(slug="zebra", name="Zebra")
    OrganizationMembershipFactory.create(organization=project.organization, user=bob, role="billing")
    going = clusters_of(workspace, alice)
    troubles_of(workspace)
    devices_at(workspace)
    access_of(workspace, going, alice, bob)
    for browser in ("Firefox/1 Linux", "Chrome/1 Windows"):
        session_of(olga, browser)
    lines_of(workspace, going, olga)
    return {
        "template": TEMPLATE,
        **environments_of(workspace),
        "cluster": str(going.pk),
        "room": str(room.pk),
        "old": str(workspace.pk),
        "plan": str(Adoption.objects.latest("pk").pk),
        "person": str(olga.pk),
        **money_of(workspace),
    }


def clusters_of(workspace: Workspace, alice: User) -> Cluster:
    """The one with lines in its ledger."""
    project, site = workspace.project, workspace.site
    cluster_stage(olga=SYSTEM, alice=actor_for(user=alice), project=project, site=site)
    for number in (1, 2):
        cluster_rows(project=project, site=site, user=alice, number=number)
    plan_at(site, project, alice)
    first = Cluster.objects.earliest("pk")
    going = Cluster.objects.filter(state="deleting")[0]
    LedgerEntry.objects.filter(cluster=first).update(cluster=going)
    ClusterJob.objects.filter(cluster=first).update(cluster=going)
    return going


def access_of(workspace: Workspace, cluster: Cluster, *people: User) -> None:
    """Members, service accounts, and accounts on the cluster, each with a credential."""
    for number, user in enumerate(people, start=1):
        workspace.members.get_or_create(user=user, defaults={"role": "edit"})
        grant_to(workspace, user)
        grant_to(workspace, robot_of(workspace, f"ci-{number}"))
        grant_of_cluster(cluster, user, hours=number)
        ClusterLogin.objects.create(
            project=workspace.project, user=user, name=f"login-{number}", uid=20_000 + number
        )
    Cluster.objects.filter(pk=cluster.pk).update(logins=["login-1"])


def session_of(user: User, browser: str) -> UserSession:
    """Of somebody who has signed in with it and is still signed in."""
    client = Client()
    client.force_login(user)
    ip = f"10.0.0.{len(browser)}"
    made: UserSession = UserSession.objects.create(
        user=user, session_key=client.session.session_key, ip=ip, user_agent=browser
    )
    return made


def troubles_of(workspace: Workspace) -> None:
    """What went wrong at its site, months that were not closed, and what the site had."""
    site, now = workspace.site, clock.now()
    for number in (1, 2):
        drift_of(workspace, state="open" if number == 1 else "repaired")
        eviction_of(workspace, "nvidia.com/gpu", uid=str(uuid.uuid4()))
        MonthClose.objects.create(
            month=date(2026, number, 1), state="refused", requested_at=now, requested_by="olga"
        )
    pool = workspace.flavors.get().flavor.pool
    findings = [
        {"name": f"pod-{n}", "workspace": "alpha", "what": f"differs by {n}", "repaired": n == 1}
        for n in (1, 2)
    ]
    CrossCheck.objects.create(site=site, checked_at=now, compared=2, findings=findings)
    for number in (1, 2):
        Process.objects.create(
            kind="worker", host=f"h-{number}", pid=number, version="1", started_at=now, seen_at=now
        )
    CapacityStretch.objects.create(
        site=site, gpu_type=pool.gpu_type, devices=4, starts_at=now - timedelta(days=1)
    )


def devices_at(workspace: Workspace) -> None:
    """Two GPUs of a node, one of them with an error."""
    seen = (
        reading(workspace, device=f"GPU-{n}", index=str(n), xid=n, utilization=50.0 + n) for n in range(2)
    )
    keep(workspace.site, clock.now(), *seen)


def environments_of(workspace: Workspace) -> dict[str, str]:
    """And two kinds of them, one of two versions; one has two keys and two files; and jobs, of which the one returned has two tasks."""
    environments.kind("editor")
    kind_version_add(actor=SYSTEM, kind=environments.kind(), document=environments.DOCUMENT)
    for name in ("alpha", "beta"):
        environments.row_in(workspace, name)
        jobs.row_in(workspace, name)
        jobs.credential_in(workspace, name)
        jobs.template_in(workspace, name)
    opened, made = environments.row_in(workspace, "gamma"), {"created_by": workspace.created_by}
    environments.at_site(opened, "alpha.txt", "beta.txt")
    opened.keys.create(name="alpha", prefix="alpha", secret_hash="a", created_at=clock.now(), **made)
    job = jobs.row_in(workspace, "gamma", tasks=2, observed={"running": "0"})
    return {"environment": str(opened.pk), "job": str(job.pk)}


def volumes_of(now: datetime) -> dict[str, object]:
    made = {"storage_class": "fast", "created_at": now.isoformat()}
    volumes = [{"name": f"v-{n}", "gib": n, "bound": n == 1, **made} for n in (1, 2)]
    return {"at": now.isoformat(), "volumes": volumes}


def lines_of(workspace: Workspace, cluster: Cluster, olga: User) -> None:
    """What only single pages list: pods, decisions, waits, devices of no known type, olga's tokens."""
    now = clock.now()
    ProjectMembershipFactory.create(project=workspace.project, user=olga, role="admin")
    pods, devices = [], []
    for number in (1, 2):
        pods.append(
            {
                "name": f"pod-{number}",
                "uid": str(number),
                "phase": "Running",
                "gpus": {"nvidia.com/gpu": number},
            }
        )
        devices.append(
            {"place": f"h-{number}", "name": f"acme.com/{number}", "count": number, "reason": "no known type"}
        )
        Tries.objects.create(
            account=str(number), user=olga, network="", failures=number, until=now + timedelta(hours=number)
        )
        sized = {
            "before": number,
            "wanted": 3,
            "after": 3,
            "signals": {"used_gpus": 1, "pending_gpus": number},
        }
        cluster.scaling_decisions.create(
            pool="gpu", kind="pending", at=now, outcome="scaled", reason="more", **sized
        )
        token = {
            "prefix": f"olga-{number}",
            "secret_hash": str(number),
            "expires_at": now + timedelta(days=number),
        }
        ApiToken.objects.create(project=workspace.project, user=olga, name=f"t-{number}", **token)
    seen = {**workspace.observed, "consumers": pods, **volumes_of(now)}
    Workspace.objects.filter(pk=workspace.pk).update(observed=seen)
    Site.objects.filter(pk=workspace.site_id).update(unknown=devices)


def copied(workspace: Workspace, name: str, site: Site, project: Project | None = None) -> Workspace:
    copy = Workspace.objects.get(pk=workspace.pk)
    copy.pk, copy.name, copy.id, copy._state.adding = None, name, Workspace().id, True
    copy.site, copy.project = site, project or copy.project
    copy.save()
    return copy


def money_of(workspace: Workspace) -> dict[str, str]:
    """Invoices, budgets, pools, usage, discounts and cards; the open draft and its card."""
    project, flavor, now = workspace.project, workspace.flavors.get().flavor, clock.now()
    for number in (1, 2):
        invoice_make(project, number=f"INV-2026-000{number}", month=date(2026, number, 1))
        budget_stage(project, name=f"budget-{number}")
        pool_stage(project, flavor, days=10 * number)
        interval_make(workspace, flavor, now - timedelta(hours=number), now, quantity=number)
    last = month_span(month_previous(month_of(now))).starts_at
    for name in ("p-alpha", "p-beta"):
        holder = copied(workspace, f"of-{name}", workspace.site, Project.objects.get(slug=name))
        interval_make(holder, flavor, last, last + timedelta(hours=len(name)))
    given = {"flavor": flavor, "basis_points": 900, "valid_from": now, "created_by": "olga"}
    Discount.objects.create(organization=project.organization, **given)
    RateCard.objects.create(slug="francs", name="Francs", currency="CHF")
    grant_stage(project.organization)
    grant_stage(project.organization)
    written = usage_write_off_stage()
    UsageWriteOff.objects.filter(pk=written.pk).update(month=month_of(now))
    staged = card_stage(project, flavor)
    batch = usage_import_stage(project)
    return {"batch": str(batch), **{name: str(staged[name]) for name in ("draft", "card")}}
