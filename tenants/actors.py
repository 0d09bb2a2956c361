"""The actor: who does something, with what permissions. Every service takes one, every selector is scoped by one."""

import uuid
from dataclasses import dataclass, field

from tenants.roles import Permission


@dataclass(frozen=True)
class Actor:
    """Built by `tenants.selectors.actor_for` (a session) or `actor_for_token`; SYSTEM acts for the portal itself.

    `scopes` is None for a person, else the token's; `token_project` is the one project that a token can see.
    """

    user_id: uuid.UUID | None
    name: str
    platform: frozenset[Permission] = frozenset()
    organizations: dict[uuid.UUID, frozenset[Permission]] = field(default_factory=dict)
    projects: dict[uuid.UUID, frozenset[Permission]] = field(default_factory=dict)
    scopes: frozenset[str] | None = None
    token_project: uuid.UUID | None = None
    token_prefix: str = ""

    def on_project(self, project_id: uuid.UUID, organization_id: uuid.UUID) -> frozenset[Permission]:
        """Every permission on a project; empty = an outsider, for whom it does not exist."""
        if self.token_project is not None and self.token_project != project_id:
            return frozenset()
        held = self.platform | self.organizations.get(organization_id, frozenset())
        held |= self.projects.get(project_id, frozenset())
        return self._scoped(held)

    def on_organization(self, organization_id: uuid.UUID) -> frozenset[Permission]:
        if self.token_project is not None:
            return frozenset()
        return self._scoped(self.platform | self.organizations.get(organization_id, frozenset()))

    def on_platform(self) -> frozenset[Permission]:
        return frozenset() if self.token_project is not None else self._scoped(self.platform)

    @property
    def sees_all(self) -> bool:
        return self.token_project is None and Permission.PLATFORM_VIEW in self.platform

    def _scoped(self, held: frozenset[Permission]) -> frozenset[Permission]:
        if self.scopes is None:
            return held
        return frozenset(permission for permission in held if permission.value in self.scopes)


SYSTEM = Actor(user_id=None, name="portal", platform=frozenset(Permission))
