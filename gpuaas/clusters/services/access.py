"""Personal credentials of a cluster: asked of the driver directly, shown once, never stored."""

from datetime import timedelta

from django.conf import settings

from gpuaas.clusters.models import Cluster, ClusterGrant
from gpuaas.clusters.selectors import cluster_require
from gpuaas.clusters.services.rows import driver_of, state_require
from gpuaas.clusters.site import outside_transaction
from gpuaas.clusters.spec import spec_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Invalid, NotFound, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import Access, ClusterAccessCapability, Member
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

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
    most = timedelta(hours=settings.ACCESS_HOURS_MAX)
    asked = min(LIFETIME_DEFAULT, most) if lifetime is None else lifetime
    if not LIFETIME_MIN <= asked <= most:
        hours = settings.ACCESS_HOURS_MAX
        raise Invalid.field("lifetime", f"a credential lives from 10 minutes to {hours} hours")
    outside_transaction()
    cluster.refresh_from_db(fields=["state", "ready_at"])
    state_require(cluster, *ENTERED, *([S.FAILED] if cluster.ready_at else []))
    driver = driver_of(cluster)
    if not isinstance(driver, ClusterAccessCapability):
        raise Conflict("clusters of this template give no credentials")
    moment = clock.now()
    grant = ClusterGrant.objects.create(
        cluster=cluster, user_id=actor.user_id, issued_at=moment, expires_at=moment + asked
    )
    member = Member(f"u-{short(actor.user_id)}", actor.name, "admin")
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
    ClusterGrant.objects.filter(pk=grant.pk).update(expires_at=access.expires_at)
    after = {"expires_at": access.expires_at.isoformat()}
    audit_record(
        actor=actor, action="cluster.credential", target=cluster, project=cluster.project, after=after
    )
    return access
