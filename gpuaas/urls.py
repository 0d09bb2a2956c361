"""Every address of the portal, room by room."""

from django.urls import include, path

urlpatterns = [
    path("api/", include("gpuaas.api.urls")),
    path("accounts/", include("allauth.urls")),
    path("", include("django_prometheus.urls")),
    path("", include("frontend.urls")),
]
