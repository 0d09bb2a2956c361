"""Orders of jobs as YAML documents."""

from typing import Any

from django.http import HttpResponse
from rest_framework.renderers import BaseRenderer, JSONRenderer


class YamlRenderer(BaseRenderer):
    """Only for content negotiation, as that of CSV."""

    media_type = "application/yaml"
    format = "yaml"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return JSONRenderer().render(data)


RENDERERS = [YamlRenderer, JSONRenderer]


def document_file(name: str, text: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}.yaml"'}
    return HttpResponse(text, content_type=YamlRenderer.media_type, headers=headers)
