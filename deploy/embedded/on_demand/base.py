"""The back end's one module, found by Django under this name."""

from typing import Any

from django.db.backends.postgresql import base

from deploy.embedded.environment import test_database_url
from deploy.embedded.on_demand.creation import DatabaseCreation
from deploy.embedded.on_demand.operations import DatabaseOperations
from gpuaas.core import env


class DatabaseWrapper(base.DatabaseWrapper):
    """Where the server is stands in the settings from the first connection on, for whoever starts another process."""

    creation_class = DatabaseCreation
    ops_class = DatabaseOperations

    def get_connection_params(self) -> dict[str, Any]:
        if not self.settings_dict["HOST"]:
            found = env.database_of(test_database_url())
            self.settings_dict.update({name: found[name] for name in ("HOST", "PORT", "USER", "PASSWORD")})
        params: dict[str, Any] = super().get_connection_params()
        return params
