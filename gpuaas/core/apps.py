from django.apps import AppConfig
from django.conf import settings


class CoreConfig(AppConfig):
    name = "gpuaas.core"
    label = "core"

    def ready(self) -> None:
        from gpuaas.core import checks  # registers the system checks

        if getattr(settings, "REFUSE_UNSAFE", False):
            checks.refuse_unsafe()
