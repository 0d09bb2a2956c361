from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "gpuaas.catalog"
    label = "catalog"
