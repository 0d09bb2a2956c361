"""Every address of the portal, room by room."""

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, resolve_url
from django.urls import URLPattern, URLResolver, include, path
from django.views import defaults
from django.views.csrf import csrf_failure as page_csrf_failure

from frontend.doors import older_page, signed_out
from gpuaas.api.errors import csrf_refused, not_found
from gpuaas.api.middleware import is_api
from gpuaas.core.connections import returning

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/", include("gpuaas.api.urls")),
    path("api", not_found),
    path("accounts/", include("tenants.urls")),
    path("", include("gpuaas.system.urls")),
    path("", include("frontend.urls")),
]

handler400 = returning(defaults.bad_request)
handler403 = returning(defaults.permission_denied)
handler404 = returning(defaults.page_not_found)
handler500 = returning(defaults.server_error)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """In the API's one error shape, or on to a page that works: one that was drawn before somebody signed in again has an old
    token, and so has one whose session is gone."""
    if is_api(request.path):
        return csrf_refused(request, reason)
    if not request.COOKIES and request.path == resolve_url(settings.LOGIN_URL):
        return page_csrf_failure(request, reason)  # by 403_csrf.html; the form drawn anew would meet the same
    if request.user.is_authenticated or request.path.startswith("/accounts/"):
        return older_page(request)
    return signed_out(request, redirect(settings.LOGIN_URL))
