"""Personal credentials of a cluster: requested from the driver, shown once, never stored."""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Random

from gpuaas.clusters.models import Cluster, ClusterGrant, ClusterLogin
from gpuaas.clusters.selectors import cluster_require, grants_lost, grants_open
from gpuaas.clusters.services.logins import login_of
from gpuaas.clusters.services.rows import CLUSTER, cluster_announce, cluster_lock, driver_of
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.spec import spec_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core import claims, clock
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError
from gpuaas.core.ids import short
from gpuaas.core.queue import poke
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.grants import grant_issue, lifetime_of
from gpuaas.providers.base import Access, ClusterAccessCapability, ClusterRevocationCapability, Member
from gpuaas.providers.registry import cluster_driver_class, cluster_driver_names
from tenants.actors import SYSTEM, Actor
from tenants.models import User
from tenants.roles import Permission

log = structlog.get_logger(__name__)
REVOCATIONS = 200  # a round
S = ClusterState


def cluster_credential(*, actor: Actor, cluster: Cluster, lifetime: timedelta | None = None) -> Access:
    """The actor's own, for 10 minutes to 24 hours (or the policy's maximum). Calls the site, so never inside a
    transaction."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_ACCESS)
    if actor.user_id is None:
        raise Forbidden("only a person can have a credential")
    asked = lifetime_of(lifetime)
    outside_transaction()
    cluster.refresh_from_db(fields=["state", "ready_at", "logins"])
    CLUSTER.require(cluster, Verb.ENTER)
    driver = driver_of(cluster)
    if not isinstance(driver, ClusterAccessCapability):
        raise Conflict("clusters of this template do not issue credentials")
    entered = login_entered(cluster, actor.user_id)
    if grants_open(cluster_id=cluster.pk).filter(user=actor.user_id, revoke_asked_at__isnull=False).exists():
        raise Conflict("earlier credentials are being ended now; try again in a few seconds")
    moment = clock.now()
    grant = ClusterGrant(cluster=cluster, user_id=actor.user_id, issued_at=moment, expires_at=moment + asked)
    member = replace(_member(actor.user_id, actor.name), login=entered.name if entered else "")
    access = grant_issue(
        grant,
        lambda: driver.access(spec_of(cluster), member, lifetime=asked),
        unknown="nothing answers at the cluster's address yet; try again in a few seconds",
    )
    _confirm(grant, access)
    after = {"expires_at": access.expires_at.isoformat()}
    CLUSTER.audit(cluster, actor, "credential", after=after)
    cluster_announce(cluster)
    return access


def login_ask(*, actor: Actor, cluster: Cluster) -> None:
    """Where people have logins of their own the actor has one from now on, whatever is refused afterwards."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_ACCESS)
    if actor.user_id is not None and cluster.logins is not None:
        login_of(project=cluster.project, user_id=actor.user_id)


def login_entered(cluster: Cluster, user_id: uuid.UUID) -> ClusterLogin | None:
    """Where people have logins of their own, the person's, once the head lets it in."""
    if cluster.logins is None:
        return None
    login = login_of(project=cluster.project, user_id=user_id)
    if login.name not in cluster.logins:
        raise Conflict(f"your account {login.name} is being made on the cluster; try again in half a minute")
    return login


def _confirm(grant: ClusterGrant, access: Access) -> None:
    """If somebody revoked while the site was asked, this credential was not included: it is ended and not shown."""
    rows = ClusterGrant.objects.filter(pk=grant.pk)
    if rows.filter(revoke_asked_at=None).update(expires_at=access.expires_at):
        return
    rows.update(revoke_asked_at=clock.now(), revoked_at=None, expires_at=access.expires_at)
    poke("clusters.revoke_at", str(grant.cluster_id))
    raise Conflict("this access was revoked at the same moment; request it again if you still have access")


@transaction.atomic
def credentials_revoke(*, actor: Actor, cluster: Cluster, user: User) -> int:
    """Ends every credential of one person; returns how many. The right to take another stays. One's own, or anybody's
    for those who manage the project. The site is asked in the background, until it has confirmed."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_ACCESS, own=True)
    if not actor.owns(user.pk):
        cluster_require(actor=actor, cluster=cluster, permission=Permission.PROJECT_MANAGE)
    row = cluster_lock(cluster.pk)
    if not cluster_can_revoke(row):
        raise Conflict("credentials for clusters of this template cannot be ended early; they expire")
    rows = grants_open(cluster_id=row.pk).filter(user=user, revoke_asked_at=None)
    count = rows.update(revoke_asked_at=clock.now())
    if count:
        _revocation_record(actor, row, user, count)
        poke("clusters.revoke_at", str(row.pk))
    return count


@transaction.atomic
def grants_ended(cluster: Cluster, *, inside: Collection[uuid.UUID]) -> None:
    """Of people who may not have credentials any more and whom the machines do not let in (`inside`: whom they do)."""
    rows = grants_lost().filter(cluster=cluster).exclude(user__in=inside)
    lost = list(rows.select_related("user", "cluster__project__organization").order_by("pk"))
    moment = clock.now()
    ClusterGrant.objects.filter(pk__in=[grant.pk for grant in lost]).update(
        revoke_asked_at=moment, revoked_at=moment
    )
    for (row, user), grants in _by_person(lost).items():
        _revocation_record(SYSTEM, row, user, len(grants))


@transaction.atomic
def rights_follow() -> int:
    """Requests the end of credentials of people who may no longer have them, wherever the driver can; returns how
    many."""
    able = [name for name in cluster_driver_names() if _revokes(name)]
    rows = grants_lost().filter(cluster__template_version__template__driver__in=able)
    rows = rows.select_related("user", "cluster__project__organization").order_by("pk")
    lost = list(rows.select_for_update(of=("self",), skip_locked=True)[:REVOCATIONS])
    ClusterGrant.objects.filter(pk__in=[grant.pk for grant in lost]).update(revoke_asked_at=clock.now())
    for (cluster, user), grants in _by_person(lost).items():
        _revocation_record(SYSTEM, cluster, user, len(grants))
    return len(lost)


def revocations_due() -> list[uuid.UUID]:
    """Clusters with credentials that their sites have not ended yet, one of each site after the other."""
    rights_follow()
    rows = Cluster.objects.exclude(state=S.DELETED).filter(Exists(_asked(OuterRef("pk"))))
    return claims.in_turn(rows, by="site", first=Random(), limit=REVOCATIONS)


def revocations_carry_out(*, cluster_id: uuid.UUID) -> int:
    """Asks the site; returns how many credentials it has confirmed as ended. Safe at any time, in any number of processes."""
    outside_transaction()
    asked = _asked(cluster_id).exclude(cluster__state=S.DELETED)
    found = asked.select_related(
        "user",
        "cluster__project__organization",
        "cluster__site",
        "cluster__template_version__template",
    ).order_by("?")[:REVOCATIONS]
    ended = 0
    for (cluster, user), grants in _by_person(found).items():
        done = _end(cluster, user, grants)
        if not done:
            break
        ended += done
    return ended


def _asked(cluster_id: uuid.UUID | OuterRef) -> QuerySet[ClusterGrant]:
    return ClusterGrant.objects.filter(
        cluster=cluster_id, revoke_asked_at__isnull=False, revoked_at=None, expires_at__gt=clock.now()
    )


def cluster_can_revoke(cluster: Cluster) -> bool:
    """Does not call the site."""
    return _revokes(cluster.template_version.template.driver)


def _revokes(driver: str) -> bool:
    return issubclass(cluster_driver_class(driver), ClusterRevocationCapability)


def _by_person(grants: Iterable[ClusterGrant]) -> dict[tuple[Cluster, User], list[uuid.UUID]]:
    found: dict[tuple[Cluster, User], list[uuid.UUID]] = {}
    for grant in grants:
        found.setdefault((grant.cluster, grant.user), []).append(grant.pk)
    return found


def _revocation_record(actor: Actor, cluster: Cluster, user: User, count: int) -> None:
    after = {"username": user.username, "credentials": count}
    CLUSTER.audit(cluster, actor, "access_revoke", after=after)
    cluster_announce(cluster)


def _end(cluster: Cluster, user: User, grants: list[uuid.UUID]) -> int:
    """What a site does not confirm now is tried again in the next round."""
    driver = driver_of(cluster)
    if not isinstance(driver, ClusterRevocationCapability):
        return 0
    try:
        driver.revoke(spec_of(cluster), _member(user.pk, user.username))
    except GpuaasError as error:
        log.warning("revocation_waits", cluster=str(cluster.pk), code=error.code, message=error.message)
        return 0
    done = ClusterGrant.objects.filter(pk__in=grants, revoked_at=None).update(revoked_at=clock.now())
    cluster_announce(cluster)
    return done


def _member(user_id: uuid.UUID, name: str) -> Member:
    return Member(f"u-{short(user_id)}", name, "admin")
