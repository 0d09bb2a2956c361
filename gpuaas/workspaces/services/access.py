"""Personal credentials: asked of the site directly, shown once, never stored."""

from datetime import timedelta

from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.providers.base import Access, AccessCapability, Member
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.services.rows import state_require
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import members_of, ref_of, subject_of
from gpuaas.workspaces.states import WorkspaceState
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

LIFETIME_MIN = timedelta(minutes=10)  # the least that Kubernetes' TokenRequest gives
LIFETIME_MAX = timedelta(hours=24)
LIFETIME_DEFAULT = timedelta(hours=8)
# members stay in while nothing runs: their data is there
ENTERED = (
    WorkspaceState.READY,
    WorkspaceState.RESIZING,
    WorkspaceState.SUSPENDING,
    WorkspaceState.SUSPENDED,
    WorkspaceState.RESUMING,
)


def kubeconfig_issue(*, actor: Actor, workspace: Workspace, lifetime: timedelta = LIFETIME_DEFAULT) -> Access:
    """The actor's own kubeconfig, for 10 minutes to 24 hours. Calls the site, so never inside a transaction."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    outside_transaction()
    if not LIFETIME_MIN <= lifetime <= LIFETIME_MAX:
        raise Invalid.field("lifetime", "a kubeconfig lives from 10 minutes to 24 hours")
    workspace.refresh_from_db(fields=["state", "ready_at", "version"])
    state_require(workspace, *ENTERED, *([WorkspaceState.FAILED] if workspace.ready_at else []))
    member = _member(actor, workspace)
    driver = driver_of(workspace.site)
    if not isinstance(driver, AccessCapability):
        raise Conflict(f"the site {workspace.site.slug} gives no kubeconfigs")
    try:
        access = driver.issue_access(ref_of(workspace), member, lifetime=lifetime)
    except NotFound as error:
        raise Conflict(
            "the site does not know your access yet; it is being set up, try again in a few seconds"
        ) from error
    audit_record(
        actor=actor,
        action="workspace.kubeconfig",
        target=workspace,
        project=workspace.project,
        after={"role": member.role, "expires_at": access.expires_at.isoformat()},
    )
    return access


def _member(actor: Actor, workspace: Workspace) -> Member:
    subject = subject_of(actor.user_id) if actor.user_id else ""
    for member in members_of(workspace):
        if member.subject == subject:
            return member
    raise Forbidden("you are not a member of this workspace; ask one of its admins to add you")
