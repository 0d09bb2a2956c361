"""The tenant's claims of storage at a simulated site, like kubectl, for tests and the demo."""

import uuid

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.providers.base import ObservedVolume
from gpuaas.providers.sandbox.dials import refuse_where_down, site_write
from gpuaas.providers.sandbox.inventory import STORAGE_CLASSES
from gpuaas.providers.sandbox.models import SandboxClaim, SandboxNamespace
from gpuaas.providers.sandbox.pods import charge, namespace_for


def claim_create(
    site_id: uuid.UUID, namespace: str, name: str, gib: int, storage_class: str = "", *, token: str = ""
) -> SandboxClaim:
    """Raises QuotaRefused if the namespace's quota is used up. `storage_class` "" = the site's default."""
    if gib < 1:
        raise Invalid("a claim requests at least 1 GiB")
    with site_write(site_id) as site:
        refuse_where_down(site)
        return claim_admit(namespace_for(site, namespace, token), name, gib, storage_class)


def claim_admit(room: SandboxNamespace, name: str, gib: int, storage_class: str = "") -> SandboxClaim:
    """Charged to the quota; the caller is the site's writer."""
    if room.claims.filter(name=name).exists():
        raise Conflict(f'persistentvolumeclaims "{name}" already exists')
    default = next(each.name for each in STORAGE_CLASSES if each.default)
    made = SandboxClaim(namespace=room, name=name, gib=gib, storage_class=storage_class or default)
    made.created_at = clock.now()
    charge(room, f'persistentvolumeclaims "{name}"', made.charges)
    made.save(force_insert=True)
    return made


def claim_end(claim: SandboxClaim) -> None:
    """Its storage is given back to the quota; the caller is the site's writer."""
    for resource, amount in claim.charges.items():
        for row in claim.namespace.quotas.filter(resource=resource):
            row.used = max(row.used - amount, 0)
            row.save(update_fields=["used"])
    claim.delete()


def volumes_in(room: SandboxNamespace) -> tuple[ObservedVolume, ...]:
    return tuple(
        ObservedVolume(row.name, row.gib, row.storage_class, bound=True, created_at=row.created_at)
        for row in room.claims.all()
    )
