"""The beginnings of addresses that rooms share, and how an address is listed."""

from django.urls import URLPattern, path, register_converter

from gpuaas.api.converters import CONVERTERS
from gpuaas.api.views import ApiView

PROJECT = "projects/<name_slug:project>"
ORGANIZATION = "organizations/<name_slug:organization>"

for name, converter in CONVERTERS.items():
    register_converter(converter, name)


def tagged(tag: str, *rows: tuple[str, type[ApiView], str]) -> list[URLPattern]:
    """Each row is a route, its view and its name. The OpenAPI document lists them under the heading `tag`."""
    return [path(route, view.as_view(tag=tag), name=name) for route, view, name in rows]
