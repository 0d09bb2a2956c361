"""Personal credentials: asked of the site directly, shown once, never stored; what is kept is that they were issued."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Invalid, NotFound, Unavailable
from gpuaas.core.queue import poke
from gpuaas.providers.base import Access, AccessCapability, AccessKind, Member, SignInCapability
from gpuaas.workspaces.grants import REVOCATION, grants_open
from gpuaas.workspaces.models import AccessGrant, Robot, Workspace
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.services.rows import admin_require, state_require, workspace_announce, workspace_lock
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import members_of, ref_of, subject_of
from gpuaas.workspaces.states import LIVE, WorkspaceState
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission

LIFETIME_MIN = timedelta(minutes=10)  # the least that Kubernetes' TokenRequest gives
LIFETIME_MAX = timedelta(hours=24)  # the most that a policy may allow
LIFETIME_DEFAULT = timedelta(hours=8)
ACTIONS = {AccessKind.KUBECONFIG: "kubeconfig", AccessKind.CLOUDS_YAML: "clouds_yaml"}
# members stay in while nothing runs: their data is there
ENTERED = (
    WorkspaceState.READY,
    WorkspaceState.RESIZING,
    WorkspaceState.SUSPENDING,
    WorkspaceState.SUSPENDED,
    WorkspaceState.RESUMING,
)


def lifetime_max() -> timedelta:
    """By the provider's policy."""
    return min(timedelta(hours=settings.ACCESS_HOURS_MAX), LIFETIME_MAX)


def credential_issue(
    *,
    actor: Actor,
    workspace: Workspace,
    lifetime: timedelta | None = None,
    kind: AccessKind | None = None,
) -> Access:
    """The actor's own kubeconfig or clouds.yaml, for 10 minutes to 24 hours (or the policy's less). Calls the site, so
    never inside a transaction. `kind`: what the caller can read; another is refused before it is made."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    if lifetime is None:
        lifetime = min(LIFETIME_DEFAULT, lifetime_max())
    member = member_of(actor, workspace)
    grant = AccessGrant(workspace=workspace, user_id=actor.user_id)
    access = access_issue(actor, grant, member, lifetime, kind=kind)
    _audit(actor, workspace, f"workspace.{ACTIONS[access.kind]}", member, access)
    return access


def sign_in_kubeconfig(*, actor: Actor, workspace: Workspace) -> str:
    """One without any credential: kubectl asks the site's own identity provider. Nothing is issued, nothing runs out."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    member = member_of(actor, workspace)
    driver = driver_of(workspace.site)
    if not isinstance(driver, SignInCapability):
        raise Conflict(f"nobody signs in at the site {workspace.site.slug} by themselves")
    try:
        return driver.sign_in_kubeconfig(ref_of(workspace), member)
    except NotFound as error:
        raise Conflict(error.message) from error


def access_issue(
    actor: Actor,
    grant: AccessGrant,
    member: Member,
    lifetime: timedelta,
    *,
    kind: AccessKind | None = None,
) -> Access:
    """Written down before the site is asked, so that no credential exists that nobody knows of."""
    outside_transaction()
    workspace = grant.workspace
    _lifetime_validate(lifetime)
    workspace.refresh_from_db(fields=["state", "ready_at", "version"])
    state_require(workspace, *ENTERED, *([WorkspaceState.FAILED] if workspace.ready_at else []))
    driver = _giver(workspace, kind)
    held = grants_open(workspace_id=workspace.pk).filter(user=grant.user_id, robot=grant.robot_id)
    if held.filter(revoke_due_at__isnull=False).exists():
        raise Conflict("earlier credentials are being ended at this moment; try again in a few seconds")
    grant.issued_by, grant.issued_at = actor.name, clock.now()
    grant.expires_at = grant.issued_at + lifetime
    grant.save(force_insert=True)
    try:
        access = driver.issue_access(ref_of(workspace), member, lifetime=lifetime)
    except Unavailable:  # it may have been made all the same
        raise
    except NotFound as error:
        grant.delete()
        raise Conflict(
            "the site does not know this access yet; it is being set up, try again in a few seconds"
        ) from error
    except GpuaasError:
        grant.delete()
        raise
    _confirm(grant, access)
    return access


def _giver(workspace: Workspace, kind: AccessKind | None) -> AccessCapability:
    driver = driver_of(workspace.site)
    if not isinstance(driver, AccessCapability):
        raise Conflict(f"the site {workspace.site.slug} gives no credentials")
    if kind is not None and kind != driver.access_kind:
        raise Conflict(
            f"a workspace at {workspace.site.slug} is entered by a {driver.access_kind}, not by a {kind}"
        )
    return driver


def _confirm(grant: AccessGrant, access: Access) -> None:
    """Whoever revoked while the site was asked has not ended this one: then it is ended, and not shown."""
    rows = AccessGrant.objects.filter(pk=grant.pk)
    if rows.filter(revoke_due_at__isnull=True, revoked_at__isnull=True).update(expires_at=access.expires_at):
        return
    rows.update(revoke_due_at=clock.now(), revoked_at=None, expires_at=access.expires_at)
    poke("workspaces.revoke", str(grant.workspace_id))
    raise Conflict("this access was revoked at this moment; ask again if you still may")


def _lifetime_validate(lifetime: timedelta) -> None:
    most = lifetime_max()
    if not LIFETIME_MIN <= lifetime <= most:
        hours = most // timedelta(hours=1)
        raise Invalid.field(
            "lifetime", f"a credential lives from 10 minutes to {hours} {'hour' if hours == 1 else 'hours'}"
        )


def _audit(actor: Actor, workspace: Workspace, action: str, member: Member, access: Access) -> None:
    after = {"role": member.role, "expires_at": access.expires_at.isoformat()}
    audit_record(actor=actor, action=action, target=workspace, project=workspace.project, after=after)


def member_of(actor: Actor, workspace: Workspace) -> Member:
    subject = subject_of(actor.user_id) if actor.user_id else ""
    for member in members_of(workspace):
        if member.subject == subject:
            return member
    raise Forbidden("you are not a member of this workspace; ask one of its admins to add you")


@transaction.atomic
def access_revoke(
    *, actor: Actor, workspace: Workspace, user: User | None = None, robot: Robot | None = None
) -> int:
    """End every credential of one person or robot; how many there were. The right to ask for another stays.

    One's own, or anybody's by an admin of the workspace or the project. The site confirms within seconds; until then a
    condition says that it is pending.
    """
    if (user is None) == (robot is None):
        raise ValueError("a person's or a robot's")
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_VIEW)
    row = workspace_lock(workspace_id=workspace.pk)
    if user is None or user.pk != actor.user_id:
        admin_require(actor, row, "end other people's credentials")
    state_require(row, *(LIVE - {WorkspaceState.DELETING}))
    who = user.username if user else robot.name if robot else ""
    count = revocation_ask(row, who, user_id=user.pk if user else None, robot_id=robot.pk if robot else None)
    if count:
        audit_record(
            actor=actor,
            action="workspace.access_revoke",
            target=row,
            project=row.project,
            after={"of": who, "credentials": count},
        )
    return count


def revocation_ask(
    row: Workspace, who: str, *, user_id: uuid.UUID | None = None, robot_id: uuid.UUID | None = None
) -> int:
    """Note on a locked row that the site has to end what was issued to one person or robot."""
    found = grants_open(workspace_id=row.pk).filter(user=user_id, robot=robot_id)
    count = found.update(revoke_due_at=clock.now())
    if count:
        row.conditions = condition_set(
            row.conditions,
            type=REVOCATION,
            status=Status.FALSE,
            reason="Pending",
            message=f"credentials of {who} are being ended",
            now=clock.now(),
        )
        row.save(update_fields=["conditions"])
        workspace_announce(row)
        poke("workspaces.revoke", str(row.pk))
    return count
