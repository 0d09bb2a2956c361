"""/api/v1/, its description, and an error in our own shape for every other address below /api/."""

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from gpuaas.api.errors import not_found

app_name = "api"
urlpatterns = [
    path("v1/", include("gpuaas.api.v1.urls")),
    path(
        "schema", SpectacularAPIView.as_view(authentication_classes=[], permission_classes=[]), name="schema"
    ),
    path(
        "docs/",
        SpectacularSwaggerSplitView.as_view(
            authentication_classes=[],
            permission_classes=[],
            url_name="api:schema",
            template_name="api/docs.html",
        ),
        name="docs",
    ),
    re_path(r"", not_found),
]
