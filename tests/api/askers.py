"""Everybody who might ask: people of every role, and tokens of every scope that the owner, a teammate and an outsider made."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from gpuaas.core import clock
from gpuaas.workspaces.models import WorkspaceMember
from tenants.models import ApiToken, Project, User
from tenants.roles import TOKEN_SCOPES, OrganizationRole, Permission, PlatformRole, ProjectRole
from tenants.selectors import actor_for
from tests.api.caller import Caller
from tests.factories.tenants import (
    OrganizationMembershipFactory,
    ProjectMembershipFactory,
    UserFactory,
)

Held = frozenset[Permission]
NOTHING: Held = frozenset()
EVERYTHING: Held = frozenset(Permission)


@dataclass(frozen=True)
class Asker:
    """Permissions by the roles alone: `here` in the project, `above` in its organization, `platform`; of a token its
    maker's in the project. `scopes` is None for a person."""

    name: str
    caller: Caller
    here: Held = NOTHING
    above: Held = NOTHING
    platform: Held = NOTHING
    scopes: Held | None = None

    def __str__(self) -> str:
        if self.scopes is None:
            return self.name
        return f"{self.name}'s token of {', '.join(sorted(self.scopes)) or 'nothing'}"


def person(user: User, project: Project, *, name: str = "") -> Asker:
    actor, above = actor_for(user=user), project.organization_id
    here = actor.on_project(project.pk, above)
    return Asker(name or user.username, Caller(user), here, actor.on_organization(above), actor.on_platform())


def people(project: Project) -> Iterator[Asker]:
    """One for each role, all of them named in the workspaces of the project, so that they may enter these."""
    made: list[tuple[str, User]] = []
    for role in ProjectRole:
        user = UserFactory.create()
        ProjectMembershipFactory.create(project=project, user=user, role=role)
        made.append((f"project {role}", user))
    for above in OrganizationRole:
        user = UserFactory.create()
        OrganizationMembershipFactory.create(organization=project.organization, user=user, role=above)
        made.append((f"organization {above}", user))
    platform = (PlatformRole.AUDITOR, PlatformRole.OPERATOR)
    made.extend((str(role), UserFactory.create(platform_role=role)) for role in platform)
    for workspace in project.workspaces.all():
        named = [WorkspaceMember(workspace=workspace, user=user, role="edit") for _, user in made]
        WorkspaceMember.objects.bulk_create(named)
    for name, user in made:
        yield person(user, project, name=name)


def token(user: User, project: Project, scopes: Held) -> Asker:
    return tokens_of(user, project, [scopes])[0]


def tokens_of(user: User, project: Project, wanted: Iterable[Held]) -> list[Asker]:
    """Written as they stand, whatever their maker may do: roles are lost after tokens are made. Used just now, which is noted once a
    minute."""
    here = actor_for(user=user).on_project(project.pk, project.organization_id)
    now, rows, made = clock.now(), [], []
    for scopes in wanted:
        prefix, secret = secrets.token_hex(6), secrets.token_hex(20)
        row = ApiToken(project=project, user=user, name="any", prefix=prefix, scopes=sorted(scopes))
        row.secret_hash = hashlib.sha256(secret.encode()).hexdigest()
        row.last_used_at, row.expires_at = now, now + timedelta(days=1)
        rows.append(row)
        made.append(Asker(user.username, Caller(token=f"gpa_{prefix}_{secret}"), here, scopes=scopes))
    ApiToken.objects.bulk_create(rows)
    return made


def tokens(user: User, project: Project, extra: Iterable[Held]) -> list[Asker]:
    """Of none of the scopes, of all, of each alone, and of `extra` sets."""
    alone = (frozenset({scope}) for scope in TOKEN_SCOPES)
    return tokens_of(user, project, sorted({NOTHING, TOKEN_SCOPES, *alone, *extra}, key=sorted))
