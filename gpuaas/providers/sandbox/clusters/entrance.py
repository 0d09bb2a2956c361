"""Access to a simulated cluster: its address, and tokens that the site stores as digests."""

import hashlib
import secrets
from datetime import datetime, timedelta

from gpuaas.core import clock
from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.base import ClusterRef, ClusterSpec, Member
from gpuaas.providers.kubeconfig import kubeconfig_text
from gpuaas.providers.sandbox.models import SandboxClusterObject, SandboxClusterToken

WORKERS, JOIN_LIVES = "system:bootstrap:workers", timedelta(minutes=10)


def address(ref: ClusterRef) -> str:
    return f"https://{ref.external_name}.sandbox.invalid:6443"


def kubeconfig(ref: ClusterRef, member: Member, token: str) -> str:
    user = {"token": token}
    return kubeconfig_text(server=address(ref), context=ref.external_name, user_name=member.name, user=user)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def token_make(endpoint: SandboxClusterObject, subject: str, until: datetime) -> str:
    token = secrets.token_urlsafe(32)
    SandboxClusterToken.objects.create(
        endpoint=endpoint,
        subject=subject,
        digest=_digest(token),
        expires_at=until,
    )
    return token


def token_subject(ref: ClusterRef, token: str) -> str:
    """The subject of a valid token; raises Unauthorized for any other."""
    row = SandboxClusterToken.objects.filter(
        digest=_digest(token), endpoint__tag=ref.id, expires_at__gt=clock.now()
    )
    found = row.values_list("subject", flat=True).first()
    if found is None:
        raise Unauthorized("You must be logged in to the server (Unauthorized)")
    return found


def let_in(spec: ClusterSpec) -> None:
    """The control plane's check of a worker that joins from another site."""
    join = spec.join
    held = SandboxClusterToken.objects.filter(
        endpoint__tag=spec.id, subject=WORKERS, expires_at__gt=clock.now()
    )
    if join is None or join.endpoint != address(spec.ref) or not held.filter(digest=_digest(join.token)):
        raise Permanent("the control plane does not accept this join token")
