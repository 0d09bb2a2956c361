from django.apps import AppConfig


class GpustatsConfig(AppConfig):
    name = "gpuaas.gpustats"

    def ready(self) -> None:
        from gpuaas.environments.use import GPUS
        from gpuaas.gpustats.selectors import environment_use

        GPUS[:] = [environment_use]
