from django.apps import AppConfig


class EnvironmentsConfig(AppConfig):
    name = "gpuaas.environments"

    def ready(self) -> None:
        from gpuaas.environments.services import inside
        from gpuaas.workspaces.services.rows import WORKSPACE

        WORKSPACE.inside.append(inside.follow)
