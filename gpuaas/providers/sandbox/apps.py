from django.apps import AppConfig


class SandboxConfig(AppConfig):
    name = "gpuaas.providers.sandbox"
    label = "sandbox"
