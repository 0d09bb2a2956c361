"""/metrics, protected by a token, because it reveals use and addresses of the portal."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django_prometheus import exports

from gpuaas.core.scrape import CHALLENGE, NOWHERE, PLAIN, REFUSAL, has_token


@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """`Authorization: Bearer` with GPUAAS_METRICS_TOKEN. Without that setting nothing is there: 404."""
    if refusal := token_refused(request):
        return refusal
    every: Any = exports.ExportToDjangoView
    answer: HttpResponse = every(request)
    return answer


def token_refused(request: HttpRequest) -> HttpResponse | None:
    """What to answer to a request without the token, in plain text as a scraper reads it; None if it has it."""
    if not settings.METRICS_TOKEN:
        return HttpResponse(NOWHERE, status=404, content_type=PLAIN)
    if has_token(request.headers.get("Authorization", "")):
        return None
    return HttpResponse(REFUSAL, status=401, content_type=PLAIN, headers=dict([CHALLENGE]))
