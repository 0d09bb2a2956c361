"""The actor: who acts, with which permissions. Every service takes an actor, and every selector is limited to what it
may see."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field

from tenants.roles import Permission


@dataclass(frozen=True)
class Actor:
    """Built by `tenants.selectors.actor_for` (a session) or `actor_for_token`; SYSTEM acts for the portal itself.

    `scopes` is None for a person, else the scopes of the token. A token's actor has only the roles of its creator in
    the one project `token_project`, limited to `scopes`: use `on_project`, `on_organization`, `on_platform` or
    `holds_somewhere`, never the roles themselves.
    """

    user_id: uuid.UUID | None
    name: str
    platform: frozenset[Permission] = frozenset()
    organizations: dict[uuid.UUID, frozenset[Permission]] = field(default_factory=dict)
    projects: dict[uuid.UUID, frozenset[Permission]] = field(default_factory=dict)
    scopes: frozenset[str] | None = None
    token_project: uuid.UUID | None = None
    token_prefix: str = ""

    def on_project(
        self, project_id: uuid.UUID, organization_id: uuid.UUID, *, own: Permission | None = None
    ) -> frozenset[Permission]:
        """All permissions on a project; empty means an outsider, for whom it does not exist.

        `own`: a permission that anybody with a role in the project has on their own things. It extends the role,
        never the scopes: a token needs that scope even for things of its creator.
        """
        held = self.platform | self.organizations.get(organization_id, frozenset())
        held |= self.projects.get(project_id, frozenset())
        if held and own is not None:
            held |= {own}
        return self._scoped(held)

    def as_tenant(
        self, organization_id: uuid.UUID, project_id: uuid.UUID | None = None
    ) -> frozenset[Permission]:
        """Permissions from roles in the organization and the project; platform roles do not count."""
        held = self.organizations.get(organization_id, frozenset())
        if project_id is not None:
            held |= self.projects.get(project_id, frozenset())
        return self._scoped(held)

    def on_organization(self, organization_id: uuid.UUID) -> frozenset[Permission]:
        return self._scoped(self.platform | self.organizations.get(organization_id, frozenset()))

    def on_platform(self) -> frozenset[Permission]:
        return self._scoped(self.platform)

    def holds_somewhere(self, permissions: Collection[Permission]) -> bool:
        """Whether the actor has any of them anywhere, for things that belong to no project; for a token, in its
        project."""
        places = (self.platform, *self.organizations.values(), *self.projects.values())
        return any(self._scoped(held) & set(permissions) for held in places)

    def owns(self, user_id: uuid.UUID | None) -> bool:
        """Whether this is the actor, or the creator of the token. Grants nothing: pass the result to `on_project` as
        `own`."""
        return user_id is not None and self.user_id == user_id

    @property
    def is_token(self) -> bool:
        return self.scopes is not None

    @property
    def sees_all(self) -> bool:
        return Permission.PLATFORM_VIEW in self.on_platform()

    def _scoped(self, held: frozenset[Permission]) -> frozenset[Permission]:
        if self.scopes is None:
            return held
        return frozenset(permission for permission in held if permission.value in self.scopes)


SYSTEM = Actor(user_id=None, name="portal", platform=frozenset(Permission))
