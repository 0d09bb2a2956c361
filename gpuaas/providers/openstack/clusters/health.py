"""How a machine of a cluster is, by what Nova says of it and what it has reported; and what went wrong, in words.

A machine is ready when Nova has it ACTIVE, it has reported so itself, and its address outside, where it has one, leads to it.
"""

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime

from gpuaas.core.errors import NoCapacity, Permanent
from gpuaas.core.ids import moment_of
from gpuaas.providers.base import STAGE_WORDS, ClusterNode, NodeReport, Stage
from gpuaas.providers.base.boots import Boots
from gpuaas.providers.openstack import names, servers
from gpuaas.providers.openstack.client import Object
from gpuaas.providers.openstack.clusters.place import Place

CLUSTER, POOL, KIND = names.CLUSTERS, "gpuaas-pool", "gpuaas-kind"
BOOT, RELEASE, TOKEN = "gpuaas-boot", "gpuaas-release", "gpuaas-token"
TOLD, AGED = "gpuaas-told", "gpuaas-upgraded"
OUTSIDE = "gpuaas-outside"  # its address outside, as it was told when it was made
NO_HOST = ("No valid host", "NoValidHost", "Exceeded maximum number of retries")


def pool_of(server: Object) -> str:
    return str(server["metadata"].get(POOL) or "")


def report_of(server: Object, boots: Boots) -> NodeReport | None:
    return boots.told.get(str(server["metadata"].get(BOOT)))


def is_going(server: Object) -> bool:
    return server.get("OS-EXT-STS:task_state") == "deleting" or server["status"] in {
        "DELETED",
        "SOFT_DELETED",
    }


def astray(servers_there: Iterable[Object], place: Place) -> set[str]:
    """Ids of running machines that were told an address outside which does not lead to them. No call where none was."""
    told = {
        row["id"]: row["metadata"][OUTSIDE]
        for row in servers_there
        if row["status"] == "ACTIVE" and row["metadata"].get(OUTSIDE)
    }
    led = {row["floating_ip_address"] for row in place.addresses.all() if row["port_id"]} if told else set()
    return {server for server, address in told.items() if address not in led}


def trouble(server: Object, boots: Boots, lost: Collection[str] = ()) -> str:
    """Why it is not ready, in words; "" where it is. lost: those whose address leads elsewhere."""
    if is_going(server):
        return "it is being deleted"
    if server["status"] == "ERROR":
        return servers.reason_in_words(fault(server)) if fault(server) else "the site says ERROR"
    if server["status"] == "BUILD":
        return "Nova makes it"
    if server["status"] != "ACTIVE":
        return f"the site says {server['status']}"
    if server["id"] in lost:
        return "its address outside does not lead to it"
    report = report_of(server, boots)
    if report is None:
        return "it is there and has not reported yet"
    if report.stage is Stage.FAILED:
        return f"it could not be set up: {report.message.splitlines()[0] if report.message else 'it did not say why'}"
    return "" if report.stage is Stage.READY else STAGE_WORDS[report.stage]


def node_of(server: Object, boots: Boots, lost: Collection[str] = ()) -> ClusterNode:
    reason = trouble(server, boots, lost)
    release = str(server["metadata"].get(RELEASE) or "")
    return ClusterNode(server["name"], pool_of(server), release, ready=not reason, reason=reason)


def begun_at(server: Object) -> datetime | None:
    """None where somebody has taken our mark away."""
    try:
        return moment_of(uuid.UUID(str(server["metadata"].get(BOOT))))
    except ValueError:
        return None


def fault(server: Object) -> str:
    return str((server.get("fault") or {}).get("message") or "")


def not_made(server: Object, pool: str) -> NoCapacity | Permanent:
    """With Nova's own words. The machine goes, for one without a host keeps its claims; the next try asks Nova anew."""
    said = fault(server)
    detail = {
        "evidence": [f"{server['name']}: {said or 'Nova does not say why'}"],
        "next": "Retry when others have given GPUs back, or scale the pool to fewer workers.",
    }
    if any(words in said for words in NO_HOST):
        what = f"a worker of the pool {pool}" if pool else "the head"
        return NoCapacity(f"no host of the site has room for {what}", detail=detail)
    detail["next"] = (
        "Retry; if it fails again, an operator has to see on the host why it cannot start machines."
    )
    return Permanent(
        f"the site could not make {server['name']}: {servers.reason_in_words(said)}", detail=detail
    )


def boot_failed(server: Object, report: NodeReport) -> Permanent:
    lines = [line for line in report.message.splitlines() if line.strip()]
    cause = lines[0] if lines else "it did not say why"
    after = f" after the stage {report.passed}" if report.passed else ""
    return Permanent(
        f"{server['name']} could not be set up{after}: {cause}",
        detail={
            "evidence": lines[-20:] or [f"{server['name']}: {cause}"],
            "next": "Retry: the machine is made anew. If it fails alike again, an operator has to look at the template's image, packages "
            "and addresses.",
        },
    )
