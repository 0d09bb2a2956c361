"""Ways in and back: what meets the sign-in comes back to the page one was at, and no address of a button is a dead end."""

from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, resolve_url
from django.urls import Resolver404, resolve
from django.utils.http import url_has_allowed_host_and_scheme

from frontend import toasts

CONSOLE = frozenset({"frontend", "operator"})
LOOKS = frozenset({"GET", "HEAD"})
CHECK, UNDONE = "check", "undone"
DEEDS = frozenset({CHECK, UNDONE})  # in the address of what only a button asks for
OLDER = "This page was older than your sign-in, so nothing was changed. Try it again."


def is_piece(request: HttpRequest) -> bool:
    """Asked for by a script of the page, and not by the browser for the whole window."""
    if request.headers.get("HX-Request"):
        return True
    return request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"


def page_of(request: HttpRequest) -> str:
    """Path and query of the page that the request came from; home where the browser does not say, or says another host."""
    for header in ("HX-Current-URL", "Referer"):
        address = request.headers.get(header, "")
        if address and url_has_allowed_host_and_scheme(
            address, {request.get_host()}, require_https=request.is_secure()
        ):
            parts = urlsplit(address)
            path = "/" + parts.path.lstrip("/\\")  # two of them name another host to a browser
            return f"{path}?{parts.query}" if parts.query else path
    return "/"


def signed_out(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """A redirect to the sign-in, as the request needs it: the whole window goes there, and comes back to its page."""
    if response.status_code != 302:
        return response
    door = resolve_url(settings.LOGIN_URL)
    if urlsplit(response.headers.get("Location", "")).path != door:
        return response
    piece = is_piece(request)
    if request.method in LOOKS and not piece:
        return response
    address = f"{door}?{urlencode({'next': page_of(request)})}"
    if not piece:
        return redirect(address)
    return HttpResponse(status=401, headers={"HX-Redirect": address})


def older_page(request: HttpRequest) -> HttpResponseBase:
    """What was sent from a page that is older than the sign-in: nothing is done, and the page is drawn anew. The form of the
    sign-in leads on to where it would have led, which needs no second sign-in by then."""
    if is_piece(request):
        return toasts.answer(tone="bad", title=OLDER, status=403)
    door = resolve_url(settings.LOGIN_URL)
    after = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(after, {request.get_host()}, require_https=request.is_secure()):
        after = "/"
    if not request.user.is_authenticated:
        return HttpResponse(status=303, headers={"Location": f"{door}?{urlencode({'next': after})}"})
    if request.path == door:
        return redirect(after)
    messages.error(request, OLDER)
    return redirect(page_of(request))


def page_instead(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """What only a button may ask for, looked at: the nearest page above it, with the filters and the order of its list, which was drawn
    at this address. Also for a part of a page that was answered there."""
    match = request.resolver_match
    if response.status_code != 405 or request.method not in LOOKS:
        return response
    if match is None or not CONSOLE & set(match.namespaces):
        return response
    kept = request.GET.copy()
    for name in DEEDS & kept.keys():
        del kept[name]
    return redirect(f"{page_above(request.path)}{'?' if kept else ''}{kept.urlencode()}")


def page_above(path: str) -> str:
    """The nearest address above that there is; where that is for buttons too, it leads on by itself."""
    while path != "/":
        path = path.rstrip("/").rpartition("/")[0] + "/"
        try:
            resolve(path)
        except Resolver404:
            continue
        return path
    return path
