from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "gpuaas.workspaces"
    sealed = ("workspaces.Machine.cloud_init",)

    def ready(self) -> None:
        from gpuaas.catalog import site
        from gpuaas.workspaces.selectors import workspaces_known

        site.KNOWN.append(workspaces_known)
