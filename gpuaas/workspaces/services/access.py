"""Personal credentials: requested from the site, shown once, never stored; only the fact that they were issued is
recorded."""

import uuid
from datetime import timedelta

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.conditions import Status, condition_set
from gpuaas.core.errors import Conflict, Forbidden, NotFound
from gpuaas.core.queue import poke
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.grants import grant_issue, lifetime_of
from gpuaas.providers.base import Access, AccessCapability, AccessKind, Member, SignInCapability
from gpuaas.workspaces.grants import REVOCATION, grants_open
from gpuaas.workspaces.models import AccessGrant, Robot, Workspace
from gpuaas.workspaces.selectors import workspace_require, workspace_role
from gpuaas.workspaces.services.rows import (
    WORKSPACE,
    admin_require,
    workspace_announce,
    workspace_lock,
)
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import members_of, ref_of, subject_of
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission

ACTIONS = {AccessKind.KUBECONFIG: "kubeconfig", AccessKind.CLOUDS_YAML: "clouds_yaml"}


def credential_issue(
    *,
    actor: Actor,
    workspace: Workspace,
    lifetime: timedelta | None = None,
    kind: AccessKind | None = None,
) -> Access:
    """The actor's own kubeconfig or clouds.yaml, valid from 10 minutes to 24 hours (or the policy's maximum). Calls
    the site, so never inside a transaction. `kind`: the format that the caller can read; another one is refused
    before it is issued."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    member = member_of(actor, workspace)
    grant = AccessGrant(workspace=workspace, user_id=actor.user_id)
    access = access_issue(actor, grant, member, lifetime_of(lifetime), kind=kind)
    _audit(actor, workspace, f"workspace.{ACTIONS[access.kind]}", member, access)
    return access


def sign_in_kubeconfig(*, actor: Actor, workspace: Workspace) -> str:
    """A kubeconfig without a credential: kubectl signs in at the site's own identity provider. Nothing is issued,
    nothing expires."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    member = member_of(actor, workspace)
    driver = driver_of(workspace.site)
    if not isinstance(driver, SignInCapability):
        raise Conflict(f"the site {workspace.site.slug} has no sign-in of its own")
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
    outside_transaction()
    workspace = grant.workspace
    workspace.refresh_from_db(fields=["state", "ready_at", "version"])
    WORKSPACE.require(workspace, Verb.ENTER)
    driver = _giver(workspace, kind)
    held = grants_open(workspace_id=workspace.pk).filter(user=grant.user_id, robot=grant.robot_id)
    if held.filter(revoke_due_at__isnull=False).exists():
        raise Conflict("earlier credentials are being ended now; try again in a few seconds")
    grant.issued_by, grant.issued_at = actor.name, clock.now()
    grant.expires_at = grant.issued_at + lifetime
    access = grant_issue(
        grant,
        lambda: driver.issue_access(ref_of(workspace), member, lifetime=lifetime),
        unknown="the access is still being set up at the site; try again in a few seconds",
    )
    _confirm(grant, access)
    return access


def _giver(workspace: Workspace, kind: AccessKind | None) -> AccessCapability:
    driver = driver_of(workspace.site)
    if not isinstance(driver, AccessCapability):
        raise Conflict(f"the site {workspace.site.slug} does not issue credentials")
    if kind is not None and kind != driver.access_kind:
        raise Conflict(
            f"access to a workspace at {workspace.site.slug} is by {driver.access_kind}, not by {kind}"
        )
    return driver


def _confirm(grant: AccessGrant, access: Access) -> None:
    """If somebody revoked while the site was asked, this credential was not included: it is ended and not shown."""
    rows = AccessGrant.objects.filter(pk=grant.pk)
    if rows.filter(revoke_due_at__isnull=True, revoked_at__isnull=True).update(expires_at=access.expires_at):
        return
    rows.update(revoke_due_at=clock.now(), revoked_at=None, expires_at=access.expires_at)
    poke("workspaces.revoke", str(grant.workspace_id))
    raise Conflict("this access was revoked at the same moment; request it again if you still have access")


def _audit(actor: Actor, workspace: Workspace, action: str, member: Member, access: Access) -> None:
    after = {"role": member.role, "expires_at": access.expires_at.isoformat()}
    audit_record(actor=actor, action=action, target=workspace, project=workspace.project, after=after)


def member_of(actor: Actor, workspace: Workspace) -> Member:
    subject = subject_of(actor.user_id) if actor.user_id else ""
    if workspace_role(actor=actor, workspace=workspace):
        for member in members_of(workspace):
            if member.subject == subject:
                return member
    raise Forbidden("you are not a member of this workspace; ask one of its admins to add you")


@transaction.atomic
def access_revoke(
    *, actor: Actor, workspace: Workspace, user: User | None = None, robot: Robot | None = None
) -> int:
    """Ends every credential of one person or robot; returns how many there were. The right to request another stays.

    One's own, or anybody's by an admin of the workspace or the project; a token needs workspace:access in any case.
    The site confirms within seconds; until then a condition says that it is pending.
    """
    if (user is None) == (robot is None):
        raise ValueError("give either a user or a robot")
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS, own=True)
    row = workspace_lock(workspace.pk)
    if user is None or not actor.owns(user.pk):
        admin_require(actor, row, "end other people's credentials")
    WORKSPACE.require(row, Verb.MANAGE)
    who = user.username if user else robot.name if robot else ""
    count = revocation_ask(row, who, user_id=user.pk if user else None, robot_id=robot.pk if robot else None)
    if count:
        WORKSPACE.audit(row, actor, "access_revoke", after={"of": who, "credentials": count})
    return count


def revocation_ask(
    row: Workspace, who: str, *, user_id: uuid.UUID | None = None, robot_id: uuid.UUID | None = None
) -> int:
    """Records on a locked row that the site has to end what was issued to one person or robot."""
    grants = grants_open(workspace_id=row.pk).filter(user=user_id, robot=robot_id)
    count = grants.update(revoke_due_at=clock.now())
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
