"""The services themselves: that they answer, in which versions, to whom, and by which clock."""

from datetime import UTC, datetime, timedelta

from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError, Unavailable
from gpuaas.providers.base import Check
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import MICROVERSIONS, Cloud
from gpuaas.providers.verdicts import Kind, some

SERVICES = Kind("Services", blocking=True)
VERSIONS = Kind("Microversions", blocking=True)
CREDENTIALS = Kind("Credentials")
PERMISSIONS = Kind("Permissions", blocking=True)
CLOCK = Kind("Clock")

# what each is asked, cheap and harmless; Keystone first, for without it nobody answers
ASKED = {
    "identity": "/services",
    "compute": "/flavors?limit=1",
    "placement": "/traits?name=in:CUSTOM_NONE",
    "image": "/images?limit=1",
    "network": "/networks?limit=1",
}
# what the portal reads that a tenant may not
ADMINS = {
    "list projects": ("identity", "/projects?limit=1"),
    "list users": ("identity", "/users?limit=1"),
    "list who has which role": ("identity", "/role_assignments?limit=1"),
    "read limits": ("identity", "/registered_limits"),
    "see every project's machines": ("compute", "/servers?all_tenants=1&limit=1"),
    "list hosts": ("compute", "/os-hypervisors?limit=1"),
    "read Placement": ("placement", "/resource_providers?name=none"),
}
MOST_SKEW = timedelta(seconds=30)
EXPIRES_SOON = timedelta(days=14)


def services(cloud: Cloud) -> Check:
    """Raises what Keystone says where that is no answer: then nothing can be told at all."""
    there = cloud.services
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
            f"The cloud's catalog does not name {some(missing)}.",
            "Register its service and endpoint in Keystone, and that of the region which the credentials name.",
        )
    if silent:
        return SERVICES.bad(
            "Silent",
            f"These do not answer: {some(silent)}.",
            "Look at the log of the service and of what is in front of it; the portal goes on by itself.",
        )
    return SERVICES.good("Answer", f"All answer: {', '.join(sorted(ASKED))}.")


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
            "Upgrade it: limits on GPUs that are passed through hold from Nova 2026.2 (Hibiscus) on.",
        )
    return VERSIONS.good("Supported", f"{', '.join(f'{name} {have}' for name, have in newest.items())}.")


def credentials(cloud: Cloud) -> Check:
    """An application credential may end; a password does not say."""
    found = cloud.own_credential()
    ends_at = (found or {}).get("expires_at")
    if not ends_at:
        return CREDENTIALS.good("NoEnd", "Our credentials do not say that they end.")
    ends = datetime.fromisoformat(ends_at).replace(tzinfo=UTC)
    left = ends - clock.now()
    if left < EXPIRES_SOON:
        return CREDENTIALS.bad(
            "ExpireSoon",
            f"Our application credential ends at {ends:%Y-%m-%d %H:%M} UTC, in {max(left.days, 0)} days.",
            "Make a new one at the cloud and give it to the site here (New credentials); what runs goes on meanwhile.",
        )
    return CREDENTIALS.good("Valid", f"Our application credential ends at {ends:%Y-%m-%d %H:%M} UTC.")


def permissions(cloud: Cloud) -> Check:
    """Admin, by what it is for; and the roles that members are given."""
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
            f"Our account {what}.",
            "Give it the role admin (openstack role add --user … --project … admin), or make the application credential "
            "with that role.",
        )
    known = {row["name"] for row in cloud.items("identity", "/roles", "roles")}
    if lacking := sorted(set(names.ROLES.values()) - known):
        return PERMISSIONS.bad(
            "NoRoles",
            f"Keystone has no role {some(lacking)}, which members of workspaces are given.",
            "Run keystone-manage bootstrap once more, or make the roles and let member imply reader.",
        )
    return PERMISSIONS.good("Enough", "Our account is admin, and the roles of members are there.")


def skew(cloud: Cloud) -> Check:
    """To the second: that is what the header says."""
    before = clock.now()
    theirs = cloud.server_time()
    after = clock.now()
    if theirs is None:
        return CLOCK.unknown("NotTold", "Keystone does not tell its time.")
    off = max(before - theirs - timedelta(seconds=1), theirs - after, timedelta(0))
    if off > MOST_SKEW:
        return CLOCK.bad(
            "Apart",
            f"The cloud's clock and the portal's are {off.total_seconds():.0f} s apart.",
            "Let both follow a time server (chrony): usage is metered by these clocks, and credentials end by them.",
        )
    return CLOCK.good("InStep", "The cloud's clock and the portal's are in step.")


def _digits(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
