from django.apps import AppConfig


class SystemConfig(AppConfig):
    name = "gpuaas.system"

    def ready(self) -> None:
        from gpuaas.system import checks

        checks.register_all()
