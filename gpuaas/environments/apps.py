from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "gpuaas.environments"
    sealed = ("environments.SshKey.secret",)

    def ready(self) -> None:
        from gpuaas.environments.selectors import taken_by
        from gpuaas.environments.services import inside
        from gpuaas.workspaces.room import TAKERS
        from gpuaas.workspaces.services.rows import WORKSPACE

        WORKSPACE.inside.append(inside.follow)
        TAKERS.append(taken_by)
