"""Every list, page and API, at the size of a large provider: the median time that the server takes, by address.

On a tenth of what `manage.py sample_data` fills in, with past usage added up. Pages are read as whoever owns the largest
organization, operators' as an operator, API lists a hundred rows at a time. The floor of each is what it is allowed to take.
"""

import statistics
import time
from collections.abc import Iterator

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLResolver, get_resolver, reverse

from billing.services.keeping import usage_keep
from gpuaas.catalog.models import Flavor, GpuType, Site
from gpuaas.core.clock import now
from gpuaas.sample.services import Size, sample_fill
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.api.addresses import addresses
from tests.bench.table import Measured

SMALL = Size(projects=1_000, holders=10_000, sites=50)
ROUNDS, SLOW_MS = 7, 500.0  # slower ones are asked once
PAGE_MS, API_MS = 20.0, 50.0


def measure() -> list[Measured]:
    sample_fill(size=SMALL, until=now())
    while usage_keep(now=now()):
        pass
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    operator = User.objects.get(username="sample-operator")
    owner = User.objects.get(username="sample-000001")
    known = _known(owner)
    rows = []
    for name, url in (*_pages(known), *_lists(known)):
        client = Client()
        client.force_login(operator if "operator" in name or "platform" in name else owner)
        if (row := _measured(client, name, url, PAGE_MS if name.startswith("page ") else API_MS)) is not None:
            rows.append(row)
    return sorted(rows, key=lambda row: row.ratio)


def _measured(client: Client, name: str, url: str, allowed: float) -> Measured | None:
    """None for what is not there, or no list or page."""
    began = time.perf_counter()
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(url)
        count = len(queries)  # a later request empties the log
    first = (time.perf_counter() - began) * 1000
    if answer.status_code != 200:
        return None
    ours = first if first > SLOW_MS else _median_ms(client, url)
    size = len(answer.getvalue()) / 1000 if answer.streaming else len(answer.content) / 1000
    note = f"{count} statements, {size:,.0f} kB"
    return Measured(name, "ms", ours, allowed, "allowed", higher_is_better=False, note=note)


def _median_ms(client: Client, url: str) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        client.get(url)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _known(owner: User) -> dict[str, object]:
    """What addresses name: the largest project, its newest workspace, a site."""
    project = Project.objects.select_related("organization").get(slug="sample-000001")
    site = Site.objects.order_by("slug")[0]
    flavor = Flavor.objects.filter(pool__site=site).order_by("slug")[0]
    return {
        "project": project.slug,
        "organization": project.organization.slug,
        "workspace": Workspace.objects.filter(project=project, state="ready").latest("pk").pk,
        "site": site.slug,
        "slug": site.slug,
        "username": owner.username,
        "flavor": flavor.slug,
        "gpu_type": GpuType.objects.order_by("slug")[0].slug,
        "resource": "vcpu",
        "month": f"{now():%Y-%m}",
        "card": "sample-standard",
        "version": 1,
    }


def _pages(known: dict[str, object]) -> Iterator[tuple[str, str]]:
    for resolver in get_resolver().url_patterns:
        if isinstance(resolver, URLResolver) and resolver.namespace == "frontend":
            for pattern in _patterns(resolver):
                parameters = pattern[1]
                if parameters <= known.keys():
                    url = reverse(f"frontend:{pattern[0]}", kwargs={name: known[name] for name in parameters})
                    if "/new/" not in url and not url.endswith((".csv", ".pdf")):
                        yield f"page {pattern[0]}", url


def _patterns(
    resolver: URLResolver, above: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    here = above | frozenset(resolver.pattern.converters)
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from _patterns(each, here)
        elif each.name:
            yield each.name, here | frozenset(each.pattern.converters)


def _lists(known: dict[str, object]) -> Iterator[tuple[str, str]]:
    for each in addresses():
        if (
            "GET" in each.methods
            and each.parameters <= known.keys()
            and not each.name.endswith(("csv", "pdf", "focus"))
        ):
            yield f"API {each.name}", f"{each.path(**known)}?page_size=100"
