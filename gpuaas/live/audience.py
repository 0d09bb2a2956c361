"""Decides which groups a signed-in person may listen to."""

from collections.abc import Mapping
from typing import Any, cast

from channels.auth import get_user
from channels.db import database_sync_to_async
from django.contrib.sessions.models import Session

from gpuaas.core import clock
from gpuaas.core.errors import Unauthorized
from gpuaas.core.events import OPERATORS_GROUP, project_group, user_group
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import actor_for, projects_for


async def groups_now(scope: Mapping[str, Any]) -> frozenset[str]:
    """The groups that the session of `scope` may listen to now; empty = signed out, disabled or never signed in.

    The session is read from the database, not from the handshake: signing out and a new password end it.
    """
    session = scope.get("session")
    if session is None or not session.session_key:
        return frozenset()
    if not await database_sync_to_async(_is_live)(session.session_key):
        return frozenset()
    user = await get_user(cast("Any", scope))
    if not isinstance(user, User):
        return frozenset()
    return await database_sync_to_async(groups_for)(user)


def _is_live(session_key: str) -> bool:
    return Session.objects.filter(pk=session_key, expire_date__gt=clock.now()).exists()


def groups_for(user: User) -> frozenset[str]:
    try:
        actor = actor_for(user=user)
    except Unauthorized:
        return frozenset()
    groups = {user_group(user.pk)}
    if Permission.PLATFORM_VIEW in actor.on_platform():
        # all tenants' events also go to the operators' group; one group instead of thousands
        return frozenset(groups | {OPERATORS_GROUP} | {project_group(pk) for pk in actor.projects})
    visible = projects_for(actor=actor, permission=Permission.PROJECT_VIEW)
    return frozenset(groups | {project_group(pk) for pk in visible.values_list("pk", flat=True)})
