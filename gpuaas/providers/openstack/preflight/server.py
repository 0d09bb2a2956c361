"""Checks of the services: availability, versions, credentials, permissions and clock."""

from datetime import UTC, datetime

from gpuaas.core.errors import GpuaasError, Unavailable, Unusable
from gpuaas.providers.base import Check
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import MICROVERSIONS, Cloud
from gpuaas.providers.verdicts import PERMISSIONS, Kind, clock_check, expiry_check, some

SERVICES = Kind("Services", blocking=True)
VERSIONS = Kind("Microversions", blocking=True)

# a cheap, harmless request for each; Keystone first, since all others need it
ASKED = {
    "identity": "/services",
    "compute": "/flavors?limit=1",
    "placement": "/traits?name=in:CUSTOM_NONE",
    "image": "/images?limit=1",
    "network": "/networks?limit=1",
}
# requests that only admins may make
ADMINS = {
    "list projects": ("identity", "/projects?limit=1"),
    "list users": ("identity", "/users?limit=1"),
    "list role assignments": ("identity", "/role_assignments?limit=1"),
    "read limits": ("identity", "/registered_limits"),
    "see every project's machines": ("compute", "/servers?all_tenants=1&limit=1"),
    "list hosts": ("compute", "/os-hypervisors?limit=1"),
    "read Placement": ("placement", "/resource_providers?name=none"),
}


def services(cloud: Cloud) -> Check:
    """Raises Unavailable if Keystone does not answer, since nothing else can be checked then."""
    try:
        there = cloud.services
    except Unusable as error:
        return SERVICES.bad(
            "SeveralRegions",
            f"It is not known which services are meant: {error.message}.",
            "Give the site new credentials with the region; attach each other region as a site of its own.",
        )
    missing = sorted(ASKED.keys() - there)
    silent = []
    for name in sorted(ASKED.keys() & there):
        try:
            cloud.get(name, ASKED[name])
        except Unavailable:
            if name == "identity":
                raise
            silent.append(name)
        except GpuaasError:
            continue  # it answers
    if missing:
        return SERVICES.bad(
            "Missing",
            f"The cloud's catalog lacks {some(missing)}.",
            "Register the service and its endpoint in Keystone, for the region in the credentials.",
        )
    if silent:
        return SERVICES.bad(
            "Silent",
            f"These services do not answer: {some(silent)}.",
            "Look at the logs of the service and of its proxy; the portal continues by itself.",
        )
    return SERVICES.good("Answer", f"All services answer: {', '.join(sorted(ASKED))}.")


def versions(cloud: Cloud) -> Check:
    newest = {name: cloud.newest(name) for name in MICROVERSIONS}
    old = [
        f"{name} serves up to {have or 'none'} and the portal needs {MICROVERSIONS[name]}"
        for name, have in newest.items()
        if _digits(have) < _digits(MICROVERSIONS[name])
    ]
    if old:
        return VERSIONS.bad(
            "TooOld",
            f"Too old: {'; '.join(old)}.",
            "Upgrade it: limits on passthrough GPUs need Nova 2026.2 (Hibiscus) or newer.",
        )
    return VERSIONS.good("Supported", f"{', '.join(f'{name} {have}' for name, have in newest.items())}.")


def credentials(cloud: Cloud) -> Check:
    """An application credential may expire; for a password it is unknown."""
    ends_at = (cloud.own_credential() or {}).get("expires_at")
    return expiry_check(datetime.fromisoformat(ends_at).replace(tzinfo=UTC) if ends_at else None)


def permissions(cloud: Cloud) -> Check:
    """The admin role and the requests that need it; and the existence of members' roles."""
    refused = []
    for what, (service, path) in ADMINS.items():
        try:
            cloud.get(service, path)
        except Unavailable:
            raise
        except GpuaasError:
            refused.append(what)
    if refused or "admin" not in cloud.roles:
        what = f"may not {some(refused)}" if refused else "does not have the role admin"
        return PERMISSIONS.bad(
            "TooFew",
            f"The portal's account {what}.",
            "Give it the role admin (openstack role add --user … --project … admin), or make the application credential "
            "with that role.",
        )
    known = {row["name"] for row in cloud.items("identity", "/roles", "roles")}
    if lacking := sorted(set(names.ROLES.values()) - known):
        return PERMISSIONS.bad(
            "NoRoles",
            f"Keystone has no role {some(lacking)}, which members of workspaces need.",
            "Run keystone-manage bootstrap again, or create the roles and let member imply reader.",
        )
    return PERMISSIONS.good("Enough", "The portal's account is admin, and the roles of members exist.")


def skew(cloud: Cloud) -> Check:
    return clock_check(cloud.server_time, whose="cloud", server="Keystone")


def _digits(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
