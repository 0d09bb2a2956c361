"""Every address of the portal, room by room."""

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.defaults import server_error as page_error

from gpuaas.api.errors import server_error as api_error

urlpatterns = [
    path("api/", include("gpuaas.api.urls")),
    path("accounts/", include("allauth.urls")),
    path("", include("django_prometheus.urls")),
    path("", include("frontend.urls")),
]


def handler500(request: HttpRequest) -> HttpResponse:
    """What failed outside a view: in the API's one error shape, or as a page."""
    return api_error(request) if request.path.startswith("/api/") else page_error(request)
