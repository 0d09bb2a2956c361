from django.apps import AppConfig


class LiveConfig(AppConfig):
    name = "gpuaas.live"
    label = "live"
