"""Personal credentials of a cluster: asked of the driver directly, shown once, never stored."""

import uuid
from collections.abc import Iterable
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction

from gpuaas.clusters.models import Cluster, ClusterGrant
from gpuaas.clusters.selectors import cluster_require, grants_lost, grants_open
from gpuaas.clusters.services.rows import cluster_announce, cluster_lock, driver_of, state_require
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.spec import spec_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Invalid, NotFound, Unavailable
from gpuaas.core.ids import short
from gpuaas.core.queue import poke
from gpuaas.providers.base import Access, ClusterAccessCapability, ClusterRevocationCapability, Member
from gpuaas.providers.registry import cluster_driver_class, cluster_driver_names
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission

log = structlog.get_logger(__name__)
REVOCATIONS = 200  # a round
LIFETIME_MIN = timedelta(minutes=10)
LIFETIME_DEFAULT = timedelta(hours=8)
S = ClusterState
ENTERED = (S.READY, S.SCALING, S.UPGRADING, S.SUSPENDING, S.SUSPENDED, S.RESUMING)


def cluster_credential(*, actor: Actor, cluster: Cluster, lifetime: timedelta | None = None) -> Access:
    """The actor's own, for 10 minutes to 24 hours (or the policy's less). Calls the site, so never inside a transaction.

    Written down before the site is asked, so that no credential exists that nobody knows of.
    """
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_ACCESS)
    if actor.user_id is None:
        raise Forbidden("a credential is a person's")
    asked = _lifetime(lifetime)
    outside_transaction()
    cluster.refresh_from_db(fields=["state", "ready_at"])
    state_require(cluster, *ENTERED, *([S.FAILED] if cluster.ready_at else []))
    driver = driver_of(cluster)
    if not isinstance(driver, ClusterAccessCapability):
        raise Conflict("clusters of this template give no credentials")
    if grants_open(cluster_id=cluster.pk).filter(user=actor.user_id, revoke_asked_at__isnull=False).exists():
        raise Conflict("earlier credentials are being ended at this moment; try again in a few seconds")
    moment = clock.now()
    grant = ClusterGrant.objects.create(
        cluster=cluster, user_id=actor.user_id, issued_at=moment, expires_at=moment + asked
    )
    member = _member(actor.user_id, actor.name)
    try:
        access = driver.access(spec_of(cluster), member, lifetime=asked)
    except Unavailable:  # it may have been made all the same
        raise
    except NotFound as error:
        grant.delete()
        raise Conflict("nothing answers at the cluster's address yet; try again in a few seconds") from error
    except GpuaasError:
        grant.delete()
        raise
    _confirm(grant, access)
    after = {"expires_at": access.expires_at.isoformat()}
    audit_record(
        actor=actor, action="cluster.credential", target=cluster, project=cluster.project, after=after
    )
    cluster_announce(cluster)
    return access


def _lifetime(asked: timedelta | None) -> timedelta:
    most = timedelta(hours=settings.ACCESS_HOURS_MAX)
    lifetime = min(LIFETIME_DEFAULT, most) if asked is None else asked
    if not LIFETIME_MIN <= lifetime <= most:
        hours = settings.ACCESS_HOURS_MAX
        raise Invalid.field("lifetime", f"a credential lives from 10 minutes to {hours} hours")
    return lifetime


def _confirm(grant: ClusterGrant, access: Access) -> None:
    """Whoever revoked while the site was asked has not ended this one: then it is ended, and not shown."""
    rows = ClusterGrant.objects.filter(pk=grant.pk)
    if rows.filter(revoke_asked_at=None).update(expires_at=access.expires_at):
        return
    rows.update(revoke_asked_at=clock.now(), revoked_at=None, expires_at=access.expires_at)
    poke("clusters.revoke")
    raise Conflict("this access was revoked at this moment; ask again if you still may")


@transaction.atomic
def credentials_revoke(*, actor: Actor, cluster: Cluster, user: User) -> int:
    """End every credential of one person; how many there were. The right to take another stays. One's own, or anybody's by
    who manages the project. The site is told in the background, and asked again until it has confirmed."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_VIEW)
    if user.pk != actor.user_id:
        cluster_require(actor=actor, cluster=cluster, permission=Permission.PROJECT_MANAGE)
    row = cluster_lock(cluster_id=cluster.pk)
    if not cluster_can_revoke(row):
        raise Conflict("credentials of this template's clusters end by themselves, not before")
    rows = grants_open(cluster_id=row.pk).filter(user=user, revoke_asked_at=None)
    count = rows.update(revoke_asked_at=clock.now())
    if count:
        _revocation_record(actor, row, user, count)
        poke("clusters.revoke")
    return count


@transaction.atomic
def rights_follow() -> int:
    """Ask for the end of what people hold who may not take it any more, wherever the driver can; how many credentials."""
    able = [name for name in cluster_driver_names() if _revokes(name)]
    rows = grants_lost().filter(cluster__template_version__template__driver__in=able)
    rows = rows.select_related("user", "cluster__project__organization").order_by("pk")
    lost = list(rows.select_for_update(of=("self",), skip_locked=True)[:REVOCATIONS])
    ClusterGrant.objects.filter(pk__in=[grant.pk for grant in lost]).update(revoke_asked_at=clock.now())
    for (cluster, user), grants in _by_person(lost).items():
        _revocation_record(SYSTEM, cluster, user, len(grants))
    return len(lost)


def revocations_carry_out() -> int:
    """Tell the sites; how many credentials they have confirmed as ended. Safe at any time, by any number of processes."""
    outside_transaction()
    rights_follow()
    asked = ClusterGrant.objects.filter(
        revoke_asked_at__isnull=False, revoked_at=None, expires_at__gt=clock.now()
    ).exclude(cluster__state=S.DELETED)
    found = asked.select_related(
        "user",
        "cluster__project__organization",
        "cluster__site",
        "cluster__template_version__template",
    ).order_by("?")[:REVOCATIONS]  # a cluster that never answers keeps nobody else's waiting for ever
    ended, silent = 0, set[uuid.UUID]()
    for (cluster, user), grants in _by_person(found).items():
        if cluster.pk not in silent:
            done = _end(cluster, user, grants)
            ended += done
            silent |= set() if done else {cluster.pk}
    return ended


def cluster_can_revoke(cluster: Cluster) -> bool:
    """Asks no site."""
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
    audit_record(
        actor=actor, action="cluster.access_revoke", target=cluster, project=cluster.project, after=after
    )
    cluster_announce(cluster)


def _end(cluster: Cluster, user: User, grants: list[uuid.UUID]) -> int:
    """What a site does not confirm now is tried again by the next round."""
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
