"""Which groups of its API a site serves: one read, which a process believes for a while, since many workspaces ask for it."""

import time

from gpuaas.providers.kubeapi.client import Api

# seconds for which a process trusts its last look at a site
BELIEVED = 15.0
_seen: dict[str, tuple[float, frozenset[str]]] = {}


def group_versions(api: Api) -> frozenset[str]:
    """Such as `batch/v1`."""
    at, found = _seen.get(api.server, (float("-inf"), frozenset()))
    if time.monotonic() - at >= BELIEVED:
        groups = api.get("/apis")["groups"]
        found = frozenset(version["groupVersion"] for group in groups for version in group["versions"])
        _seen[api.server] = (time.monotonic(), found)
    return found
