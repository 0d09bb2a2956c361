"""The devices of a workspace, of what runs inside it, or of a node: as a list, and as the page that other pages fetch a part of."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from frontend.lists import Column, Listed, Listing, list_page
from frontend.nav import Crumb
from frontend.presenters.gpus import IN_A_DAY, card_of, rows_of
from gpuaas.gpustats.selectors import Figures

DEVICES = Listing(
    "GPUs",
    columns=(
        Column("pod", "Pod", "pod"),
        Column("holder", "Workspace", "workspace"),
        Column("device", "Device", "device"),
        Column("uuid"),
        Column("node"),
        Column("use", "Use", "now__utilization", numeric=True),
        Column("mean", "Mean of 24 h", "mean", numeric=True),
        Column("memory", "Memory", "now__memory_used_mib", numeric=True),
        Column("power", "Power", "now__power_watts", numeric=True),
        Column("temperature", "Temperature", "now__temperature", numeric=True),
        Column("xid", "Last XID", "now__xid"),
    ),
    mark="gpus-",
)


def devices_of(
    request: HttpRequest, figures: Figures, *, holders: bool = False, labels: Mapping[str, str] | None = None
) -> Listed:
    """holders: whose each is, for operators; tenants see only their own."""
    without = () if holders else {"holder"}
    return DEVICES.of(
        request, figures.devices, rows_of, without=without, labels=labels, page_url=request.path
    )


def gpus_page(
    request: HttpRequest,
    name: str,
    figures: Figures,
    zone: tzinfo,
    crumbs: tuple[Crumb, ...],
    *,
    title: str = IN_A_DAY,
    mean: str = "Mean of 24 h",
) -> HttpResponseBase:
    """name: of what the devices are shown of; title: of the chart; mean: over which time the use is."""
    context: dict[str, Any] = {
        "of": name,
        "gpus": card_of(figures, zone=zone, title=title),
        "mean_label": mean,
        "on_page": "HX-Request" not in request.headers,
        "crumbs": crumbs,
    }
    return list_page(
        request, "workspaces/gpus.html", devices_of(request, figures, labels={"mean": mean}), context
    )
