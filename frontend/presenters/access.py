"""Who may enter a workspace, what credentials they were given, and the service accounts for automation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from frontend.place import ProjectPlace
from gpuaas.lifecycle.grants import GrantStanding
from gpuaas.workspaces.models import AccessGrant, Robot, Workspace, WorkspaceMember
from gpuaas.workspaces.selectors import grants_of, robots_of
from gpuaas.workspaces.states import AccessRole
from tenants.roles import Permission

FORMER = "no member now"


@dataclass(frozen=True)
class Holder:
    """A person or a service account with the credentials that still open the workspace."""

    name: str
    role: str
    live: int
    until: datetime | None
    revoke_url: str = ""
    remove_url: str = ""
    page_url: str = ""
    removed: bool = False


@dataclass(frozen=True)
class Issued:
    """One credential as the list of a holder shows it."""

    issued_by: str
    issued_at: datetime
    expires_at: datetime
    tone: str
    word: str


@dataclass(frozen=True)
class AccessCard:
    members: tuple[Holder, ...]
    robots: tuple[Holder, ...]


def may_manage_members(members: Sequence[WorkspaceMember], here: ProjectPlace) -> bool:
    admin = any(here.actor.owns(row.user_id) and row.role == AccessRole.ADMIN for row in members)
    return here.can(Permission.WORKSPACE_CREATE) and (admin or here.can(Permission.PROJECT_MANAGE))


def card_of(workspace: Workspace, here: ProjectPlace, *, manages: bool) -> AccessCard:
    """Former members who still hold a valid credential come first, marked as removed."""
    live = [row for row in grants_of(workspace=workspace) if row.standing is GrantStanding.VALID]
    members = list(workspace.members.all())
    known = {row.user_id for row in members}
    gone = {row.user_id: row.user for row in live if row.user_id and row.user_id not in known}
    shown = [_former(workspace, user, live, manages=manages) for user in gone.values() if user]
    shown += [_member(workspace, row, live, here, manages=manages) for row in members]
    return AccessCard(
        tuple(shown), tuple(_robot(workspace, row, live) for row in robots_of(workspace=workspace))
    )


def _member(
    workspace: Workspace,
    row: WorkspaceMember,
    live: Sequence[AccessGrant],
    here: ProjectPlace,
    *,
    manages: bool,
) -> Holder:
    own = [grant for grant in live if grant.user_id == row.user_id]
    may_revoke = own and (manages or here.actor.owns(row.user_id))
    return Holder(
        name=row.user.username,
        role=row.get_role_display().lower(),
        live=len(own),
        until=max((grant.expires_at for grant in own), default=None),
        revoke_url=_url("access_revoke", workspace, row.user_id) if may_revoke else "",
        remove_url=_url("member_remove", workspace, row.user_id) if manages else "",
    )


def _former(workspace: Workspace, user: Any, live: Sequence[AccessGrant], *, manages: bool) -> Holder:
    own = [grant for grant in live if grant.user_id == user.pk]
    return Holder(
        name=user.username,
        role=FORMER,
        live=len(own),
        until=max(grant.expires_at for grant in own),
        revoke_url=_url("access_revoke", workspace, user.pk) if manages else "",
        removed=True,
    )


def _robot(workspace: Workspace, row: Robot, live: Sequence[AccessGrant]) -> Holder:
    own = [grant for grant in live if grant.robot_id == row.pk]
    return Holder(
        name=row.name,
        role=row.get_role_display().lower(),
        live=len(own),
        until=max((grant.expires_at for grant in own), default=None),
        page_url=_url("robot", workspace, row.pk),
    )


def _url(name: str, workspace: Workspace, key: Any) -> str:
    return reverse(f"frontend:workspace_{name}", args=[workspace.project.slug, workspace.pk, key])


def issued_of(grants: Iterable[AccessGrant]) -> tuple[Issued, ...]:
    return tuple(_issued(row) for row in grants)


LOOKS = {
    GrantStanding.VALID: ("ok", "Valid"),
    GrantStanding.ENDING: ("busy", "Being ended"),
    GrantStanding.EXPIRED: ("off", "Expired"),
    GrantStanding.REVOKED: ("off", "Revoked"),
}


def _issued(row: AccessGrant) -> Issued:
    return Issued(row.issued_by, row.issued_at, row.expires_at, *LOOKS[row.standing])
