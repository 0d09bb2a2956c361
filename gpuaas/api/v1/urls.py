"""Every address of version 1."""

from django.urls import path

from gpuaas.api.v1 import me

urlpatterns = [
    path("me", me.MeView.as_view(), name="me"),
]
