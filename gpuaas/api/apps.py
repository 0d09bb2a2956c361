from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "gpuaas.api"
    label = "api"

    def ready(self) -> None:
        from gpuaas.api import openapi  # noqa: F401  registers how sign-in is described
