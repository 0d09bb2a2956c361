from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "gpuaas.jobs"
    sealed = ("jobs.DataCredential.secret",)

    def ready(self) -> None:
        from gpuaas.jobs.selectors import taken_by
        from gpuaas.jobs.services import inside
        from gpuaas.workspaces.room import TAKERS
        from gpuaas.workspaces.services.rows import WORKSPACE

        WORKSPACE.inside.append(inside.follow)
        TAKERS.append(taken_by)
