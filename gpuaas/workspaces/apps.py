from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "gpuaas.workspaces"
    sealed = ("workspaces.Machine.cloud_init",)
