from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "gpuaas.jobs"
    sealed = ("jobs.DataCredential.secret",)

    def ready(self) -> None:
        from gpuaas.jobs.mover import credential_names, remotes_of
        from gpuaas.jobs.selectors import taken_by
        from gpuaas.jobs.services import inside
        from gpuaas.staging.credentials import KEEPERS, Keeper
        from gpuaas.workspaces.room import TAKERS
        from gpuaas.workspaces.services.rows import WORKSPACE

        WORKSPACE.inside.append(inside.follow)
        TAKERS.append(taken_by)
        KEEPERS.append(Keeper(credential_names, remotes_of))
