from django.apps import AppConfig


class SampleConfig(AppConfig):
    name = "gpuaas.sample"
    label = "sample"
