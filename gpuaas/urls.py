"""Every address of the portal, room by room."""

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import include, path
from django.views.csrf import csrf_failure as page_csrf_failure

from frontend.doors import signed_out
from gpuaas.api.errors import csrf_refused
from gpuaas.api.middleware import is_api

urlpatterns = [
    path("api/", include("gpuaas.api.urls")),
    path("accounts/", include("allauth.urls")),
    path("", include("gpuaas.system.urls")),
    path("", include("frontend.urls")),
]


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """In the API's one error shape, or as a page; whose session is gone with its token goes to the sign-in."""
    if is_api(request.path):
        return csrf_refused(request, reason)
    if request.user.is_authenticated or request.path.startswith("/accounts/"):
        return page_csrf_failure(request, reason)
    return signed_out(request, redirect(settings.LOGIN_URL))
