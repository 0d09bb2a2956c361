"""Writes the audit log: one row per action of an actor, in the same transaction as the action."""

from typing import Any

from gpuaas.core.request import current_request
from tenants.actors import Actor
from tenants.models import AuditEntry, Organization, Project


def audit_record(
    *,
    actor: Actor,
    action: str,
    target: Any,
    project: Project | None = None,
    organization: Organization | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """`action` is `<entity>.<verb>`. before/after contain what changed, never a secret."""
    info = current_request.get()
    organization_id = organization.pk if organization else (project.organization_id if project else None)
    return AuditEntry.objects.create(
        actor=actor.name,
        actor_id=actor.user_id,
        token_prefix=actor.token_prefix,
        action=action,
        target_kind=type(target)._meta.model_name or "",
        target_id=str(target.pk),
        target_name=str(target)[:200],
        organization_id=organization_id,
        project_id=project.pk if project else None,
        before=before,
        after=after,
        request_id=info.request_id,
        ip=info.ip,
    )
