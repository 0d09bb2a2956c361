"""Health addresses for probes and load balancers, and for who looks which part is sick.

`live` and `ready` say nothing that a stranger may not know. `parts` names sites and processes, so it is only for who
has the token of /metrics; operators see the same on their page.
"""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gpuaas.core.metrics import token_refused
from gpuaas.core.scrape import PLAIN
from gpuaas.system import health
from gpuaas.system.gauges import registry


@never_cache
@require_safe
def live(_request: HttpRequest) -> HttpResponse:
    """200 while the process answers at all; asks nothing else, so that no outage makes a supervisor kill it."""
    return HttpResponse("alive\n", content_type=PLAIN)


@never_cache
@require_safe
def ready(_request: HttpRequest) -> HttpResponse:
    """200 if the process can answer requests, else 503: the database is away or lacks tables of this release."""
    part = health.ready()
    return HttpResponse(
        "ready\n" if part.works else "not ready\n", content_type=PLAIN, status=_status(works=part.works)
    )


@never_cache
@require_safe
def parts(request: HttpRequest) -> HttpResponse:
    """Every part with a sentence and a remedy; 503 if one of them is sick."""
    if refusal := token_refused(request):
        return refusal
    found = health.parts()
    works = all(part.works for part in found)
    rows = [
        {"part": part.key, "works": part.works, "message": part.message, "remedy": part.remedy}
        for part in found
    ]
    return JsonResponse({"works": works, "parts": rows}, status=_status(works=works))


@never_cache
@require_safe
def gauges(request: HttpRequest) -> HttpResponse:
    """The state of the whole portal for Prometheus, the same from every process."""
    if refusal := token_refused(request):
        return refusal
    return HttpResponse(generate_latest(registry()), content_type=CONTENT_TYPE_LATEST)


def _status(*, works: bool) -> int:
    return 200 if works else 503
