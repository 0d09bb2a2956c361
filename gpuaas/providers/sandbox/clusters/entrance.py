"""How one gets into a simulated cluster: its address, and tokens of which the site keeps digests alone."""

import hashlib
import secrets
from datetime import datetime, timedelta

import yaml

from gpuaas.core import clock
from gpuaas.core.errors import Permanent, Unauthorized
from gpuaas.providers.base import ClusterRef, ClusterSpec, Member
from gpuaas.providers.sandbox.models import SandboxClusterObject, SandboxClusterToken

WORKERS, JOIN_LIVES = "system:bootstrap:workers", timedelta(minutes=10)


def address(ref: ClusterRef) -> str:
    return f"https://{ref.external_name}.sandbox.invalid:6443"


def kubeconfig(ref: ClusterRef, member: Member, token: str) -> str:
    name = ref.external_name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": address(ref)}}],
        "users": [{"name": member.name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": member.name}}],
        "current-context": name,
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


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
    """Who a credential is at the cluster now; raises Unauthorized."""
    row = SandboxClusterToken.objects.filter(
        digest=_digest(token), endpoint__tag=ref.id, expires_at__gt=clock.now()
    )
    found = row.values_list("subject", flat=True).first()
    if found is None:
        raise Unauthorized("You must be logged in to the server (Unauthorized)")
    return found


def let_in(spec: ClusterSpec) -> None:
    """As the control plane does with a machine that comes from elsewhere."""
    join = spec.join
    held = SandboxClusterToken.objects.filter(
        endpoint__tag=spec.id, subject=WORKERS, expires_at__gt=clock.now()
    )
    if join is None or join.endpoint != address(spec.ref) or not held.filter(digest=_digest(join.token)):
        raise Permanent("the control plane lets no worker in with this token")
