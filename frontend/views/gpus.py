"""The devices of a workspace or of a node, as a list."""

from django.http import HttpRequest

from frontend.lists import Column, Listed, Listing
from frontend.presenters.gpus import rows_of
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


def devices_of(request: HttpRequest, figures: Figures, *, holders: bool = False) -> Listed:
    """holders: whose each is, for operators; tenants see only their own."""
    without = () if holders else {"holder"}
    return DEVICES.of(request, figures.devices, rows_of, without=without, page_url=request.path)
