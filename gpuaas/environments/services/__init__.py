"""Writes of environments and of their kinds."""

from gpuaas.environments.services.access import (
    environment_access_set,
    environment_change,
    key_create,
    key_revoke,
)
from gpuaas.environments.services.changes import (
    environment_clone,
    environment_create,
    environment_delete,
    environment_log_ask,
    environment_restart,
    environment_start,
    environment_stop,
    environment_wake,
    environment_wrong,
)
from gpuaas.environments.services.idle import environment_idle_set, environment_keep
from gpuaas.environments.services.kinds import kind_create, kind_retire, kind_version_add
from gpuaas.environments.services.rows import ENVIRONMENT

__all__ = [
    "ENVIRONMENT",
    "environment_access_set",
    "environment_change",
    "environment_clone",
    "environment_create",
    "environment_delete",
    "environment_idle_set",
    "environment_keep",
    "environment_log_ask",
    "environment_restart",
    "environment_start",
    "environment_stop",
    "environment_wake",
    "environment_wrong",
    "key_create",
    "key_revoke",
    "kind_create",
    "kind_retire",
    "kind_version_add",
]
