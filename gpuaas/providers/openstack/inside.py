"""Acting inside a tenant's project: as a user of the portal's own with a member's rights, so that limits, policies and
what is visible hold for the portal as for the tenant.

The user stays for as long as the project: what Nova does after its answer (ports, images) it does with that user's token.
Its password follows from the site's credentials, so nothing is stored and two workers never take it from each other.
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
                # a token made in the second in which the password was set counts as one from before it
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
