"""What is held of GPUs, and free to be held."""

from decimal import Decimal

from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from billing.selectors.idle import idle_now
from frontend.formats import gpus
from frontend.presenters.limits import shared_allocated
from frontend.presenters.operator.capacity import pools_shown, sums_of
from gpuaas.catalog.models import GpuPool
from gpuaas.catalog.selectors import cards_by_site
from quotas.gpus import cards_held, everywhere, gpus_of_pools
from quotas.selectors import limits_for_project
from tests.frontend.figures import reading
from tests.frontend.figures.places import (
    Figure,
    Place,
    Readers,
    eur_price,
    limits_csv,
    page,
    rows_of,
)
from tests.frontend.figures.scene import H100, STORAGE, Scene


def _free(r: Readers, s: Scene) -> int:
    return gpus_of_pools([s.h100.pool])[s.h100.pool_id].free


def _api_flavor(client: Client, s: Scene) -> str:
    rows = client.get("/api/v1/flavors").json()["results"]
    return str(next(row["free_gpus"] for row in rows if row["slug"] == s.h100.slug))


def _api_pool(client: Client, s: Scene, key: str) -> str:
    rows = client.get("/api/v1/platform/capacity").json()["results"]
    return str(next(row[key] for row in rows if row["site"] == "ber-1" and row["gpu_type"] == H100[4:]))


def _api_type(client: Client, key: str) -> str:
    rows = client.get("/api/v1/gpu-types").json()["results"]
    return str(next(row[key] for row in rows if row["slug"] == H100[4:]))


def _devices(r: Readers) -> int:
    rows = r.olga.get("/api/v1/platform/capacity").json()["results"]
    return sum(row["capacity"] for row in rows if row["gpu_type"] == H100[4:])


def _gauge(r: Readers, name: str) -> str:
    """As Prometheus reads it."""
    told = r.metrics.get("/metrics/portal").content.decode()
    for family in text_string_to_metric_families(told):
        for sample in family.samples:
            if sample.name == name and sample.labels == {"site": "ber-1", "resource": H100}:
                return f"{sample.value:g}"
    return "none"


def _api_sum(r: Readers, key: str, site: str = "") -> Decimal:
    """Of all pools, devices as the cards that they are cut from."""
    total = Decimal(0)
    for row in r.olga.get("/api/v1/platform/capacity").json()["results"]:
        if site not in ("", row["site"]):
            continue
        share = Decimal(str(row["cards"])) / row["capacity"]
        total += Decimal(str(row["cards"])) if key == "cards" else row[key] * share
    return total


def _api_memory(r: Readers, s: Scene) -> str:
    rows = r.alice.get("/api/v1/flavors").json()["results"]
    return str(next(row["gpu_type"]["memory_gib"] for row in rows if row["slug"] == s.h100.slug))


def _type_cell(r: Readers, column: str) -> str:
    return reading.cell(page(r.olga, "operator_gpu_types"), "H100 SXM 80 GB", column)


def _effect(r: Readers) -> str:
    return r.olga.get("/operator/sites/at/ber-1/effect/?oversubscription_percent=100").content.decode()


def _before(html: str, word: str) -> str:
    """The number before the first such word of the head."""
    return reading.text(html.partition("<h1")[2]).partition(word)[0].split()[-1]


def _between(html: str, before: str, after: str) -> str:
    return reading.text(html).partition(before)[2].partition(after)[0]


def _limits(r: Readers, s: Scene) -> dict[str, int]:
    rows = rows_of(r.alice, f"projects/{s.project.slug}/limits")
    return {row["resource"]: row["used"] for row in rows}


def _limits_in_cards(r: Readers, s: Scene) -> Decimal:
    pools = r.olga.get("/api/v1/platform/capacity").json()["results"]
    shares = {f"gpu:{row['gpu_type']}": Decimal(str(row["cards"])) / row["capacity"] for row in pools}
    return sum((used * shares[name] for name, used in _limits(r, s).items() if name in shares), Decimal(0))


def _of_platform(name: str, column: str, key: str) -> Figure:
    def held(r: Readers, s: Scene) -> str:
        return reading.value(page(r.olga, "operator"), "GPUs held")

    def noted(r: Readers, s: Scene) -> str:
        return _between(page(r.olga, "operator"), " healthy ", f" {name}").rpartition(", ")[2]

    def counted(r: Readers, s: Scene) -> str:
        return _before(page(r.olga, "operator"), " GPUs")

    read = {"held": held, "capacity": counted}.get(name, noted)
    return Figure(
        f"GPUs of the platform, {name}",
        lambda r, s: getattr(sums_of(pools_shown(actor=r.as_olga)), name),
        (
            Place("operator's overview", read, gpus),
            Place(
                "operator's capacity",
                lambda r, s: reading.cell(page(r.olga, "operator_capacity"), "Total", column),
                gpus,
            ),
            Place("API, capacity", lambda r, s: gpus(_api_sum(r, key)), gpus),
        ),
    )


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
                lambda r, s: reading.nth(page(r.olga, "operator_limits"), "Free now", 1),
                str,
            ),
        ),
    ),
    Figure(
        "H100 at ber-1, held",
        lambda r, s: gpus_of_pools([s.h100.pool])[s.h100.pool_id].held,
        (
            Place("API, capacity", lambda r, s: _api_pool(r.olga, s, "held"), str),
            Place("gauge", lambda r, s: _gauge(r, "gpuaas_capacity_reserved"), str),
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
        "H100 at ber-1, sellable",
        lambda r, s: gpus_of_pools([s.h100.pool])[s.h100.pool_id].sellable,
        (
            Place("API, capacity", lambda r, s: _api_pool(r.olga, s, "sellable"), str),
            Place("gauge", lambda r, s: _gauge(r, "gpuaas_capacity_sellable"), str),
            Place(
                "operator's capacity",
                lambda r, s: reading.cell(
                    page(r.olga, "operator_capacity", site="ber-1"), "H100 SXM 80 GB", "Sellable"
                ),
                str,
            ),
            Place(
                "effect of oversubscription",
                lambda r, s: reading.nth(_effect(r), "H100 SXM 80 GB", 1),
                str,
            ),
        ),
    ),
    Figure(
        "H100 at ber-1, held, where its effect is told",
        lambda r, s: gpus_of_pools([s.h100.pool])[s.h100.pool_id].held,
        (
            Place(
                "effect of oversubscription", lambda r, s: reading.nth(_effect(r), "H100 SXM 80 GB", 2), str
            ),
            Place("API, capacity", lambda r, s: _api_pool(r.olga, s, "held"), str),
        ),
    ),
    Figure(
        "H100 at ber-1, healthy",
        lambda r, s: gpus_of_pools([s.h100.pool])[s.h100.pool_id].healthy,
        (
            Place("API, capacity", lambda r, s: _api_pool(r.olga, s, "healthy"), str),
            Place("gauge", lambda r, s: _gauge(r, "gpuaas_capacity_healthy"), str),
        ),
    ),
    Figure(
        "H100, devices everywhere",
        lambda r, s: sum(pool.capacity for pool in GpuPool.objects.filter(gpu_type=s.h100.pool.gpu_type)),
        (
            Place("GPU types", lambda r, s: _type_cell(r, "Devices"), str),
            Place("API, capacity", lambda r, s: str(_devices(r)), str),
        ),
    ),
    Figure(
        "memory of an H100",
        lambda r, s: s.h100.pool.gpu_type.memory_gib,
        (
            Place("GPU types", lambda r, s: _type_cell(r, "Memory"), lambda found: f"{found} GiB"),
            Place("API, GPU types", lambda r, s: _api_type(r.alice, "memory_gib"), str),
            Place("API, flavors", _api_memory, str),
        ),
    ),
    _of_platform("capacity", "GPUs", "cards"),
    _of_platform("held", "Held", "held"),
    _of_platform("allocated", "Allocated", "allocated"),
    _of_platform("free", "Free", "free"),
    Figure(
        "GPUs at ber-1",
        lambda r, s: cards_by_site()[s.h100.pool.site_id],
        (
            Place("sites", lambda r, s: reading.cell(page(r.olga, "operator_sites"), "ber-1", "GPUs"), gpus),
            Place(
                "its page",
                lambda r, s: _before(page(r.olga, "operator_site", "ber-1"), " GPUs"),
                gpus,
            ),
            Place(
                "operator's capacity",
                lambda r, s: _before(page(r.olga, "operator_capacity", site="ber-1"), " GPUs shown"),
                gpus,
            ),
            Place("API, capacity", lambda r, s: gpus(_api_sum(r, "cards", site="ber-1")), gpus),
        ),
    ),
    Figure(
        "GPUs held by the project",
        lambda r, s: cards_held(project=s.project),
        (
            Place(
                "home", lambda r, s: reading.value(page(r.alice, "home", s.project.slug), "GPUs held"), gpus
            ),
            Place("API, limits", lambda r, s: gpus(_limits_in_cards(r, s)), gpus),
        ),
    ),
    Figure(
        "H100 held by the project",
        lambda r, s: next(
            line.used for line in limits_for_project(project=s.project) if line.resource == H100
        ),
        (
            Place("API, limits", lambda r, s: str(_limits(r, s)[H100]), str),
            Place("operator's limits.csv", lambda r, s: limits_csv(r.olga, "held"), str),
            Place(
                "its limits",
                lambda r, s: reading.cell(
                    page(r.alice, "limits", s.project.slug), "H100 SXM 80 GB", "Project"
                ).split()[0],
                str,
            ),
        ),
    ),
    Figure(
        "storage that pods of the project use",
        lambda r, s: shared_allocated(project=s.project)["storage"],
        (
            Place("operator's limits.csv", lambda r, s: limits_csv(r.olga, "allocated", "storage"), str),
            Place(
                "its limits",
                lambda r, s: reading.bar(page(r.alice, "limits", s.project.slug), "Storage"),
                lambda found: f"{found * 100 / STORAGE:.2f}",
            ),
        ),
    ),
    Figure(
        "idle GPUs of the reserved pool, per hour",
        lambda r, s: sum(row.per_hour or 0 for row in idle_now(actor=r.as_alice, project=s.project)),
        (
            Place(
                "reservations",
                lambda r, s: _between(page(r.olga, "operator_reservations"), " idle, ", " per hour"),
                eur_price,
            ),
            Place(
                "home",
                lambda r, s: reading.term(page(r.alice, "home", s.project.slug), "Running now").rpartition(
                    " "
                )[2],
                eur_price,
            ),
        ),
    ),
)
