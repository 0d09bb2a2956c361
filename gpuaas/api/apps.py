from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "gpuaas.api"
    label = "api"
