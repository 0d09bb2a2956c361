"""What is held of GPUs, and free to be held."""

from django.test import Client

from quotas.gpus import everywhere, gpus_of_pools
from quotas.models import Limit, SiteCapacity
from tests.frontend.figures import reading
from tests.frontend.figures.places import (
    Figure,
    Place,
    Readers,
    limits_csv,
    page,
)
from tests.frontend.figures.scene import H100, Scene


def _free(r: Readers, s: Scene) -> int:
    return gpus_of_pools([s.h100.pool])[s.h100.pool_id].free


def _api_flavor(client: Client, s: Scene) -> str:
    rows = client.get("/api/v1/flavors").json()["results"]
    return str(next(row["free_gpus"] for row in rows if row["slug"] == s.h100.slug))


def _api_pool(client: Client, s: Scene, key: str) -> str:
    rows = client.get("/api/v1/platform/capacity").json()["results"]
    return str(next(row[key] for row in rows if row["site"] == "ber-1" and row["gpu_type"] == H100[4:]))


GPUS = (
    Figure(
        "H100 at ber-1, free",
        _free,
        (
            Place(
                "request",
                lambda r, s: reading.cell(
                    page(r.alice, "workspace_new", s.project.slug), "H100 SXM h100.1", "Free now"
                ),
                str,
            ),
            Place(
                "request, answer",
                lambda r, s: reading.term(
                    page(r.alice, "workspace_new", s.project.slug, flavor=s.h100.slug), "Free at ber-1 now"
                ),
                str,
            ),
            Place(
                "operator's flavors",
                lambda r, s: reading.cell(page(r.olga, "operator_flavors"), s.h100.slug, "Free"),
                str,
            ),
            Place(
                "operator's capacity",
                lambda r, s: reading.cell(
                    page(r.olga, "operator_capacity", site="ber-1", type="h100-sxm-80gb"), "Total", "Free"
                ),
                str,
            ),
            Place("API, flavors", lambda r, s: _api_flavor(r.alice, s), str),
            Place("API, capacity", lambda r, s: _api_pool(r.olga, s, "free"), str),
            Place("API, flavors of operators", lambda r, s: _api_flavor(r.olga, s), str),
        ),
    ),
    Figure(
        "H100, free everywhere",
        lambda r, s: everywhere()[H100].free,
        (
            Place(
                "operator's capacity",
                lambda r, s: reading.cell(
                    page(r.olga, "operator_capacity", type="h100-sxm-80gb"), "Total", "Free"
                ),
                str,
            ),
            Place(
                "operator's limits",
                lambda r, s: reading.nth(page(r.olga, "operator_limits"), "Free now", 0),
                str,
            ),
        ),
    ),
    Figure(
        "H100 at ber-1, held",
        lambda r, s: gpus_of_pools([s.h100.pool])[s.h100.pool_id].held,
        (
            Place("API, capacity", lambda r, s: _api_pool(r.olga, s, "held"), str),
            Place(
                "operator's capacity",
                lambda r, s: reading.cell(
                    page(r.olga, "operator_capacity", site="ber-1", type=H100[4:]), "Total", "Held"
                ),
                str,
            ),
        ),
    ),
    Figure(
        "GPUs held of the platform",
        lambda r, s: sum(row.used for row in SiteCapacity.objects.filter(resource__startswith="gpu:")),
        (
            Place(
                "operator's overview", lambda r, s: reading.value(page(r.olga, "operator"), "GPUs held"), str
            ),
            Place(
                "operator's capacity",
                lambda r, s: reading.cell(page(r.olga, "operator_capacity"), "Total", "Held"),
                str,
            ),
        ),
    ),
    Figure(
        "H100 held by the project",
        lambda r, s: Limit.objects.get(project=s.project, resource=H100).used,
        (
            Place(
                "API, limits",
                lambda r, s: str(
                    next(
                        row["used"]
                        for row in r.alice.get(f"/api/v1/projects/{s.project.slug}/limits").json()["results"]
                        if row["resource"] == H100
                    )
                ),
                str,
            ),
            Place("operator's limits.csv", lambda r, s: limits_csv(r.olga, "held"), str),
        ),
    ),
)
