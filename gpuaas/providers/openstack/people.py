"""Members of a workspace: a Keystone user each, a role in the project, and application credentials that expire.

An application credential becomes valid again with a restored role, so the user of a former member is deleted.
"""

import secrets
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import yaml

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Unauthorized
from gpuaas.providers.base import Access, AccessKind, Member, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.duplicates import MADE

Holder = tuple[str, str]  # "users" or "groups", and the id
TRIES, AGAIN_SECONDS = 8, 0.3
SHORTEST, LONGEST = timedelta(minutes=10), timedelta(hours=24)


def apply_members(cloud: Cloud, spec: WorkspaceSpec, project: Object) -> None:
    """Delete former members' users first; then every member has exactly their role, and nobody else any. Our account may."""
    roles = role_ids(cloud)
    there = {user["name"]: user for user in all_users_of(cloud, project)}
    wanted = {names.user_name(project["name"], member.subject): member for member in spec.members}
    own = names.user_name(project["name"], names.PORTAL)
    if own in there:
        wanted[own] = Member(names.PORTAL, names.PORTAL, "admin")
    for name, user in there.items():
        if name not in wanted:
            _user_remove(cloud, user["id"])
    held = roles_held(cloud, project["id"])
    for name, member in wanted.items():
        user = there.get(name) or _user_make(cloud, name, project)
        if not user.get("enabled", True):
            cloud.patch("identity", f"/users/{user['id']}", {"user": {"enabled": True}})
        holder = ("users", user["id"])
        _role_set(cloud, project["id"], holder, held.pop(holder, set()), roles[names.ROLES[member.role]])
    left = {user["id"] for name, user in there.items() if name not in wanted} | {cloud.user_id}
    for holder, strange in held.items():
        if holder[1] not in left:
            _role_set(cloud, project["id"], holder, strange, "")


def remove_members(cloud: Cloud, project: Object) -> None:
    for user in all_users_of(cloud, project):
        _user_remove(cloud, user["id"])


def users_of(cloud: Cloud, project: Object) -> list[Object]:
    """Members of this project, by our user names."""
    own = names.user_name(project["name"], names.PORTAL)
    return [row for row in all_users_of(cloud, project) if row["name"] != own]


def all_users_of(cloud: Cloud, project: Object) -> list[Object]:
    """Including the portal's own user. By more than the name: that of an adopted project may begin the names of people who have
    nothing to do with it."""
    prefix = names.user_name(project["name"], "")
    rows = cloud.items("identity", "/users", "users", domain_id=project["domain_id"], name__startswith=prefix)
    return [row for row in rows if row["name"].startswith(prefix) and _is_ours(row, project)]


def _is_ours(user: Object, project: Object) -> bool:
    return user.get("description") == MADE and user.get("default_project_id") == project["id"]


def roles_held(cloud: Cloud, project_id: str) -> dict[Holder, set[str]]:
    """Roles in the project by holder, in one call."""
    query = {"scope.project.id": project_id}
    held: dict[Holder, set[str]] = {}
    for row in cloud.items("identity", "/role_assignments", "role_assignments", **query):
        kind = "user" if "user" in row else "group"
        held.setdefault((f"{kind}s", row[kind]["id"]), set()).add(row["role"]["id"])
    return held


def role_ids(cloud: Cloud) -> dict[str, str]:
    return {row["name"]: row["id"] for row in cloud.items("identity", "/roles", "roles")}


def issue(cloud: Cloud, ref: WorkspaceRef, project: Object, member: Member, *, lifetime: timedelta) -> Access:
    """A clouds.yaml with an application credential. Raises NotFound if the member has no access.

    Only the user itself can create one, so it gets a password for that moment, which is then forgotten. It is not reset
    afterwards, since that would invalidate a sign-in within the same second.
    """
    name = names.user_name(project["name"], member.subject)
    user = next((row for row in users_of(cloud, project) if row["name"] == name), None)
    if user is None or ("users", user["id"]) not in roles_held(cloud, project["id"]):
        raise NotFound(f"{member.name} has no access to {ref.external_name}")
    password = secrets.token_urlsafe(32)
    _password_set(cloud, user["id"], password)
    expires = clock.now().replace(microsecond=0) + min(max(lifetime, SHORTEST), LONGEST)
    credential = _credential_make(cloud, user, project, password, expires)
    entry = {
        "auth_type": "v3applicationcredential",
        "auth": {
            "auth_url": cloud.auth_url,
            "application_credential_id": credential["id"],
            "application_credential_secret": credential["secret"],
        },
        "region_name": cloud.region,
        "identity_api_version": "3",
    }
    document = yaml.safe_dump({"clouds": {ref.external_name: entry}}, sort_keys=False)
    return Access(document=document, expires_at=expires, kind=AccessKind.CLOUDS_YAML)


def revoke(cloud: Cloud, project: Object, member: Member) -> None:
    """Delete the credentials one by one, which also ends tokens issued with them."""
    name = names.user_name(project["name"], member.subject)
    for user in users_of(cloud, project):
        if user["name"] == name:
            path = f"/users/{user['id']}/application_credentials"
            for row in cloud.items("identity", path, "application_credentials"):
                cloud.delete("identity", f"{path}/{row['id']}")
            _password_set(cloud, user["id"], secrets.token_urlsafe(32))


def portal_user(cloud: Cloud, project: Object, password: str) -> None:
    """Ensure the portal's user in the project, with a member's role only; repeatable."""
    name = names.user_name(project["name"], names.PORTAL)
    roles = role_ids(cloud)
    user = next((row for row in all_users_of(cloud, project) if row["name"] == name), None)
    if user is None:
        user = _user_make(cloud, name, project, password)
    else:
        cloud.patch("identity", f"/users/{user['id']}", {"user": {"password": password, "enabled": True}})
    holder = ("users", user["id"])
    held = roles_held(cloud, project["id"]).get(holder, set())
    _role_set(cloud, project["id"], holder, held, roles[names.ROLES["admin"]])


def _credential_make(cloud: Cloud, user: Object, project: Object, password: str, expires: datetime) -> Object:
    auth = {
        "auth_url": cloud.auth_url,
        "username": user["name"],
        "password": password,
        "user_domain_id": user["domain_id"],
        "project_id": project["id"],
    }
    entry = {"auth": auth, "region_name": cloud.region}
    body = {
        "name": f"gpuaas-{secrets.token_hex(6)}",
        "expires_at": expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f"),
        "unrestricted": False,
    }
    path = f"/users/{user['id']}/application_credentials"
    for left in reversed(range(TRIES)):
        own = Cloud({"clouds_yaml": yaml.safe_dump({"clouds": {"own": entry}})})
        try:
            made: Object = own.post("identity", path, {"application_credential": body})
        except Unauthorized:
            # Keystone rejects a token issued in the same second in which the password was set
            if not left:
                raise
            time.sleep(AGAIN_SECONDS)
        else:
            credential: Object = made["application_credential"]
            return credential
        finally:
            own.close()
    raise AssertionError("the last try raises")


def _user_make(cloud: Cloud, name: str, project: Object, password: str = "") -> Object:
    body = {
        "name": name,
        "domain_id": project["domain_id"],
        "default_project_id": project["id"],
        "password": password or secrets.token_urlsafe(32),
        "description": MADE,
    }
    made: Object = cloud.post("identity", "/users", {"user": body})["user"]
    return made


def _user_remove(cloud: Cloud, user_id: str) -> None:
    """With its key pairs, which Nova would otherwise keep."""
    for row in cloud.items("compute", "/os-keypairs", "keypairs", user_id=user_id):
        name = quote(row["keypair"]["name"], safe="")
        cloud.delete("compute", f"/os-keypairs/{name}?user_id={user_id}")
    cloud.delete("identity", f"/users/{user_id}")


def _password_set(cloud: Cloud, user_id: str, password: str) -> None:
    cloud.patch("identity", f"/users/{user_id}", {"user": {"password": password}})


def _role_set(cloud: Cloud, project_id: str, holder: Holder, there: set[str], wanted: str) -> None:
    """Assign exactly this role, "" = none; implied roles are not assignments."""
    path = f"/projects/{project_id}/{holder[0]}/{holder[1]}/roles"
    for role in sorted(there - {wanted}):
        cloud.delete("identity", f"{path}/{role}")
    if wanted and wanted not in there:
        cloud.put("identity", f"{path}/{wanted}")
