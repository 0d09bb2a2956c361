from django.apps import AppConfig


class BareMetalConfig(AppConfig):
    name = "gpuaas.providers.baremetal"
    label = "baremetal"
