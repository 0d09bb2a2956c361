from django.apps import AppConfig
from django.conf import settings


class CoreConfig(AppConfig):
    name = "gpuaas.core"
    label = "core"

    def ready(self) -> None:
        from django.db.backends.signals import connection_created

        from gpuaas.core import checks, pool  # checks: registers the system checks

        connection_created.connect(pool.back)

        if getattr(settings, "REFUSE_UNSAFE", False):
            checks.refuse_unsafe()
