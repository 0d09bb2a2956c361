from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "gpuaas.core"
    label = "core"

    def ready(self) -> None:
        from gpuaas.core import checks  # noqa: F401  registers the system checks
