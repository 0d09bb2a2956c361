"""Writes of the tenants room. Each service checks the actor's permission and writes the audit log."""

from tenants.services.credentials import second_factor_remove
from tenants.services.entering import link_remove, user_enter
from tenants.services.members import (
    organization_member_remove,
    organization_member_set,
    project_member_remove,
    project_member_set,
)
from tenants.services.organizations import (
    organization_create,
    organization_update,
    project_create,
    project_update,
)
from tenants.services.sessions import session_changed, sessions_end
from tenants.services.tokens import token_create, token_revoke, token_touch
from tenants.services.tries import (
    password_reset,
    signed_in,
    tries_forget,
    tries_lift,
    try_return,
    try_take,
)
from tenants.services.users import (
    user_activate,
    user_create,
    user_deactivate,
    user_platform_role_set,
    user_update,
)

__all__ = [
    "link_remove",
    "organization_create",
    "organization_member_remove",
    "organization_member_set",
    "organization_update",
    "password_reset",
    "project_create",
    "project_member_remove",
    "project_member_set",
    "project_update",
    "second_factor_remove",
    "session_changed",
    "sessions_end",
    "signed_in",
    "token_create",
    "token_revoke",
    "token_touch",
    "tries_forget",
    "tries_lift",
    "try_return",
    "try_take",
    "user_activate",
    "user_create",
    "user_deactivate",
    "user_enter",
    "user_platform_role_set",
    "user_update",
]
