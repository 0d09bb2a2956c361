"""Members of a workspace. A change reaches the site by the reconciler, because the digest of the spec differs from
then on."""

from typing import Any

from django.db import transaction
from django.db.models import F

from gpuaas.core import clock
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.rows import one_or_none
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace, WorkspaceMember
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.services.access import revocation_ask
from gpuaas.workspaces.services.rows import WORKSPACE, admin_require, workspace_lock, workspace_wake
from gpuaas.workspaces.services.validation import members_resolve
from gpuaas.workspaces.states import WorkspaceState
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission


@transaction.atomic
def member_set(
    *,
    actor: Actor,
    workspace: Workspace,
    username: str,
    role: str,
    expected_version: int | None = None,
) -> WorkspaceMember:
    """Adds a member or changes the role. By an admin of the workspace or of the project."""
    row = _locked(actor, workspace, expected_version)
    user, access = members_resolve([(username, role)], project=row.project)[0]
    old = row.members.filter(user=user).first()
    if old is not None and old.role == access:
        return old
    member, _ = WorkspaceMember.objects.update_or_create(workspace=row, user=user, defaults={"role": access})
    before = {username: old.role} if old else None
    _changed(actor, row, "workspace.member_set", before, {username: str(access)})
    return member


@transaction.atomic
def member_remove(
    *, actor: Actor, workspace: Workspace, username: str, expected_version: int | None = None
) -> None:
    """Ends a member's access and credentials. Raises NotFound if there is no such member."""
    row = _locked(actor, workspace, expected_version)
    member = one_or_none(row.members.select_related("user").filter(user__username=username))
    if member is None:
        raise NotFound(f"{username[:150]} is not a member of this workspace")
    before = {username: member.role}
    revocation_ask(row, username, user_id=member.user_id)
    member.delete()
    _changed(actor, row, "workspace.member_remove", before, None)


def _locked(actor: Actor, workspace: Workspace, expected_version: int | None) -> Workspace:
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace.pk, expected_version=expected_version)
    admin_require(actor, row, "change its members")
    WORKSPACE.require(row, Verb.MANAGE)
    return row


def _changed(
    actor: Actor,
    row: Workspace,
    action: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    if row.members.count() > 200:
        raise Invalid.field("members", "a workspace can have at most 200 members")
    changes: dict[str, Any] = {"version": F("version") + 1}
    if row.state != WorkspaceState.FAILED or row.ready_at is not None:
        changes["due_at"] = clock.now()
    Workspace.objects.filter(pk=row.pk).update(**changes)
    row.refresh_from_db(fields=["version"])
    audit_record(actor=actor, action=action, target=row, project=row.project, before=before, after=after)
    workspace_wake(row)
