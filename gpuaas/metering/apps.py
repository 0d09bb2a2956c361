from django.apps import AppConfig


class MeteringConfig(AppConfig):
    name = "gpuaas.metering"
    label = "metering"
