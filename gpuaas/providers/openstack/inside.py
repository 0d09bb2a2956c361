"""Signs in to a tenant's project as a user of the portal with a member's rights, so that limits, policies and visibility
apply to the portal as to the tenant.

The user exists for as long as the project: Nova uses its token for work after the answer (ports, images).
Its password is derived from the site's credentials, so nothing is stored and concurrent workers use the same.
"""

import time

import yaml

from gpuaas.core.errors import Unauthorized
from gpuaas.providers.openstack import names, people
from gpuaas.providers.openstack.client import Cloud, Object

TRIES, AGAIN_SECONDS = 8, 0.3


def enter(cloud: Cloud, project: Object) -> Cloud:
    """Signed in to the project; the caller closes it."""
    password = cloud.derived(f"portal in {project['id']}")
    for left in reversed(range(TRIES)):
        own = Cloud(_credentials(cloud, project, password))
        try:
            _ = own.services
        except Unauthorized:
            own.close()
            if left == TRIES - 1:
                people.portal_user(cloud, project, password)
            elif not left:
                raise
            else:
                # Keystone rejects a token issued in the same second in which the password was set
                time.sleep(AGAIN_SECONDS)
        else:
            return own
    raise AssertionError("the last try raises")


def _credentials(cloud: Cloud, project: Object, password: str) -> Object:
    auth = {
        "auth_url": cloud.auth_url,
        "username": names.user_name(project["name"], names.PORTAL),
        "password": password,
        "user_domain_id": project["domain_id"],
        "project_id": project["id"],
    }
    entry = {**cloud.transport, "auth": auth}
    return {"clouds_yaml": yaml.safe_dump({"clouds": {"own": entry}})}
