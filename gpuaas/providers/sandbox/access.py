"""Personal credentials of a simulated site: stored as hashes, and deleted with the member's binding."""

import hashlib
import secrets
from datetime import timedelta

import yaml

from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Access, AccessKind, Connection, Member, WorkspaceRef
from gpuaas.providers.kubeconfig import kubeconfig_text
from gpuaas.providers.sandbox.dials import call, site_write
from gpuaas.providers.sandbox.models import SandboxMember, SandboxToken


def issue(
    connection: Connection, ref: WorkspaceRef, member: Member, *, lifetime: timedelta, kind: AccessKind
) -> Access:
    with call(connection, "access"), site_write(connection.site_id) as site:
        row = SandboxMember.objects.filter(
            namespace__site=site,
            namespace__name=ref.external_name,
            namespace__owner=ref.id,
            namespace__gone_at=None,
            subject=member.subject,
        ).first()
        if row is None:
            raise NotFound("this person has no access to the workspace at the site")
        token, now = secrets.token_urlsafe(32), clock.now()
        SandboxToken.objects.filter(member=row, expires_at__lte=now).delete()
        SandboxToken.objects.create(
            member=row, digest=hashlib.sha256(token.encode()).hexdigest(), expires_at=now + lifetime
        )
    server = connection.endpoint or f"https://{connection.site_slug}.sandbox.invalid:6443"
    document = DOCUMENTS[kind](connection.site_slug, server, ref.external_name, member.name, token)
    return Access(document=document, expires_at=now + lifetime, kind=kind)


def revoke(connection: Connection, ref: WorkspaceRef, member: Member) -> None:
    with call(connection, "access"), site_write(connection.site_id):
        SandboxToken.objects.filter(
            member__namespace__site=connection.site_id,
            member__namespace__name=ref.external_name,
            member__namespace__owner=ref.id,
            member__subject=member.subject,
        ).delete()


def _kubeconfig(site: str, server: str, namespace: str, user: str, token: str) -> str:
    place = {"server": server, "cluster": site, "context": namespace, "namespace": namespace}
    return kubeconfig_text(user_name=user, user={"token": token}, **place)


def _clouds_yaml(site: str, server: str, project: str, user: str, token: str) -> str:
    auth = {"auth_url": server, "project_name": project, "username": user, "token": token}
    cloud = {"auth_type": "token", "auth": auth, "region_name": site}
    text: str = yaml.safe_dump({"clouds": {project: cloud}}, sort_keys=False)
    return text


DOCUMENTS = {AccessKind.KUBECONFIG: _kubeconfig, AccessKind.CLOUDS_YAML: _clouds_yaml}
