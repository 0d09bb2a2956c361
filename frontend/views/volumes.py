"""The volumes of a project: what claims take of the storage that its workspaces bought."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from django.http import HttpRequest, HttpResponseBase

from billing.quotes import Prices, prices_of, storage_month
from frontend.lists import Column, Filter, Listing, Query, find, list_page, saying
from frontend.place import ProjectPlace, project_page
from frontend.presenters.money import Unpriced
from frontend.views.usage import crumbs
from gpuaas.workspaces.volumes import Volume, volumes_for
from tenants.roles import Permission

BOUND = {True: "bound", False: "not bound"}


@dataclass(frozen=True)
class VolumeRow:
    """per_month: of its size at the price of its class; None where nothing is charged or no price is set."""

    volume: Volume
    per_month: Decimal | None

    @property
    def word(self) -> str:
        return BOUND[self.volume.bound]


LIST = Listing(
    "volumes",
    columns=(
        Column("name", "Claim", "volume__name", "volume.name"),
        Column("workspace", "Workspace", "volume__workspace", "volume.workspace"),
        Column("site", value="volume.site"),
        Column("gib", "Size", "volume__gib", "volume.gib", numeric=True),
        Column("storage_class", "Class", "volume__storage_class", "volume.storage_class"),
        Column("sold_as", value="volume.sold_as"),
        Column("per_month", "Price per month", "per_month", "per_month", numeric=True),
        Column("state", "State", "word", "word"),
        Column("created_at", "Created", "volume__created_at", "volume.created_at"),
    ),
    filters=(
        find("Find a claim or workspace", "Claim or workspace"),
        Filter("of", "Class", "every class"),
        Filter("state", "State", "every state", [(word, word) for word in BOUND.values()]),
    ),
)


@project_page(Permission.WORKSPACE_VIEW)
def index(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    prices, may_see = None, here.can(Permission.BILLING_VIEW)
    if may_see:
        with Unpriced():
            prices = prices_of(here.project.organization, here.now, None)
    rows = rows_of(volumes_for(**here.given), prices)

    def found(query: Query) -> list[VolumeRow]:
        named = saying(rows, query["q"], lambda row: f"{row.volume.name} {row.volume.workspace}")
        return [
            row
            for row in named
            if query["of"] in ("", row.volume.storage_class) and query["state"] in ("", row.word)
        ]

    classes = sorted({row.volume.storage_class for row in rows} - {""})
    shown = LIST.of(request, found, without=() if may_see else {"per_month"}, of=classes)
    context = {
        "may_see": may_see,
        "currency": prices.currency if prices else "",
        "observed_at": min((row.volume.observed_at for row in rows), default=None),
        "crumbs": crumbs(here, "Volumes"),
    }
    return list_page(request, "projects/volumes.html", shown, context)


def rows_of(volumes: Iterable[Volume], prices: Prices | None) -> list[VolumeRow]:
    return [
        VolumeRow(
            each,
            storage_month(prices, each.sold_as, each.gib) if prices is not None and each.charged else None,
        )
        for each in volumes
    ]
