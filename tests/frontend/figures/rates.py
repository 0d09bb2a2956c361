"""What runs costs per hour, and goes on to cost until its lease ends: of workspaces, clusters and a warm pool; of
all of a project and above.
"""

from decimal import Decimal

from billing.clusters import warm_pool_cost
from billing.held import held_quote
from billing.selectors.running import (
    HolderRate,
    earning_now,
    rates_of,
    rest_of_lease,
    running_now,
    warm_pool_rate,
)
from frontend.formats import price
from gpuaas.clusters.models import Cluster
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.frontend.figures import reading
from tests.frontend.figures.places import (
    Figure,
    Place,
    Readers,
    both,
    eur,
    eur_price,
    json_of,
    page,
    quote_now,
)
from tests.frontend.figures.scene import Scene


def rate_of(*, actor: Actor, holder: Workspace | Cluster) -> HolderRate:
    return rates_of(actor=actor, holders=[holder.pk], project=holder.project)[holder.pk]


def room(name: str) -> Figure:
    """Per hour of one workspace."""

    def api(s: Scene) -> str:
        return f"projects/{s.project.slug}/workspaces/{s.rooms[name].pk}"

    quoted = name != "leaving"
    return Figure(
        f"{name}, per hour",
        lambda r, s: rate_of(actor=r.as_alice, holder=s.rooms[name]).per_hour,
        (
            Place(
                "home",
                lambda r, s: reading.cell(page(r.alice, "home", s.project.slug), name, "Per hour"),
                eur_price,
            ),
            Place(
                "list",
                lambda r, s: reading.cell(page(r.alice, "workspaces", s.project.slug), name, "Per hour"),
                eur_price,
            ),
            Place(
                "operator's list",
                lambda r, s: reading.cell(page(r.olga, "operator_workspaces"), name, "Per hour"),
                eur_price,
            ),
            Place(
                "its page",
                lambda r, s: reading.nth(
                    page(r.alice, "workspace", s.project.slug, s.rooms[name].pk), "Total", 0
                ),
                eur_price,
            ),
            *(
                [Place("API, quote", lambda r, s: quote_now(r.alice, api(s), "per_hour"), str)]
                if quoted
                else []
            ),
        ),
    )


def lease(name: str) -> Figure:
    return Figure(
        f"{name}, to the end of its lease",
        lambda r, s: rest_of_lease(actor=r.as_alice, holder=s.rooms[name]),
        (
            Place(
                "its page",
                lambda r, s: reading.term(
                    page(r.alice, "workspace", s.project.slug, s.rooms[name].pk), "From now to end of lease"
                ),
                eur,
            ),
            Place(
                "API, quote",
                lambda r, s: quote_now(
                    r.alice, f"projects/{s.project.slug}/workspaces/{s.rooms[name].pk}", "to_lease_end"
                ),
                str,
            ),
        ),
    )


def _pool_page(r: Readers, s: Scene) -> str:
    return page(r.olga, "operator_cluster_template_pool", s.pool.template.slug, s.pool.pk)


def _pool_path(s: Scene) -> str:
    return f"platform/cluster-templates/{s.pool.template.slug}/warm-pools/{s.pool.pk}"


def _until_claimed(found: Decimal) -> str:
    return f"{eur(found)}, until they were claimed"


CLUSTER = (
    Figure(
        "cluster, per hour",
        lambda r, s: rate_of(actor=r.as_alice, holder=s.cluster).per_hour,
        (
            Place(
                "its page",
                lambda r, s: reading.text(
                    page(r.alice, "cluster", s.project.slug, s.cluster.pk).split('<p class="g-big">')[1]
                ).split()[0],
                eur_price,
            ),
            Place(
                "API",
                lambda r, s: json_of(
                    r.alice, f"projects/{s.project.slug}/clusters/{s.cluster.pk}", "cost", "per_hour"
                ),
                str,
            ),
        ),
    ),
    Figure(
        "cluster, to the end of its lease",
        lambda r, s: rest_of_lease(actor=r.as_alice, holder=s.cluster),
        (
            Place(
                "its page",
                lambda r, s: reading.term(
                    page(r.alice, "cluster", s.project.slug, s.cluster.pk), "To end of lease"
                ),
                eur,
            ),
            Place(
                "API",
                lambda r, s: json_of(
                    r.alice, f"projects/{s.project.slug}/clusters/{s.cluster.pk}", "cost", "to_lease_end"
                ),
                str,
            ),
            Place("quote", lambda r, s: str(held_quote(holder=s.cluster).to_lease_end), str),
        ),
    ),
    Figure(
        "warm pool, month so far",
        lambda r, s: warm_pool_cost(actor=r.as_olga, pool=s.pool),
        (
            Place("its page", lambda r, s: reading.term(_pool_page(r, s), "Cost this month"), _until_claimed),
            Place("API", lambda r, s: json_of(r.olga, _pool_path(s), "cost_month"), str),
            Place(
                "usage of its project",
                lambda r, s: reading.cell(
                    page(r.alice, "usage", s.project.slug, view="workspace"), "warm", "Cost"
                ),
                eur,
            ),
        ),
    ),
    Figure(
        "warm pool, per hour",
        lambda r, s: warm_pool_rate(actor=r.as_olga, pool=s.pool).per_hour,
        (
            Place(
                "its page",
                lambda r, s: reading.term(_pool_page(r, s), "Per hour now"),
                lambda found: f"{eur_price(found)}, for clusters that wait",
            ),
            Place("API", lambda r, s: json_of(r.olga, _pool_path(s), "per_hour"), str),
        ),
    ),
)

RUNNING = (
    Figure(
        "project, per hour",
        lambda r, s: running_now(actor=r.as_alice, project=s.project).total,
        (
            Place(
                "home",
                lambda r, s: reading.value(page(r.alice, "home", s.project.slug), "Running now"),
                eur_price,
            ),
            Place(
                "costs",
                lambda r, s: reading.value(page(r.alice, "costs", s.project.slug), "Running now"),
                eur_price,
            ),
            Place(
                "operator's usage",
                lambda r, s: reading.cell(page(r.olga, "operator_usage"), s.project.slug, "Per hour now"),
                eur_price,
            ),
            Place("API", lambda r, s: json_of(r.alice, f"projects/{s.project.slug}/costs", "per_hour"), str),
        ),
    ),
    Figure(
        "organization, per hour",
        lambda r, s: running_now(actor=r.as_alice, organization=s.project.organization).total,
        (
            Place(
                "costs",
                lambda r, s: reading.value(
                    page(r.alice, "organization_costs", s.project.organization.slug), "Running now"
                ),
                eur_price,
            ),
            Place(
                "API",
                lambda r, s: json_of(
                    r.alice, f"organizations/{s.project.organization.slug}/costs", "per_hour"
                ),
                str,
            ),
        ),
    ),
    Figure(
        "platform, per hour",
        lambda r, s: {code: row.per_hour for code, row in earning_now(actor=r.as_olga).items()},
        (
            Place(
                "operator's overview",
                lambda r, s: reading.value(page(r.olga, "operator"), "Earning now"),
                both(price),
            ),
            Place(
                "operator's usage",
                lambda r, s: reading.cell(page(r.olga, "operator_usage"), "Total", "Per hour now"),
                both(price),
            ),
        ),
    ),
)
