"""The style page alone, as DEBUG includes it."""

from django.urls import include, path

urlpatterns = [path("dev/parts/", include("frontend.parts_urls"))]
