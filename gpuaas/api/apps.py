from importlib import import_module

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "gpuaas.api"

    def ready(self) -> None:
        import_module("gpuaas.api.openapi")  # registers how sign-in is described
