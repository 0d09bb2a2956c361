from importlib import import_module

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "gpuaas.catalog"
    sealed = ("catalog.Site.credentials",)

    def ready(self) -> None:
        import_module("gpuaas.catalog.checks")  # registers the system check
