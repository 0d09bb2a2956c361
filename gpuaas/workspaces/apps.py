from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "gpuaas.workspaces"
    label = "workspaces"
