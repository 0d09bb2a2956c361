"""The health of a cluster's machines, from Nova's status and their own reports; and what went wrong, in words.

A machine is ready when Nova has it ACTIVE, it has reported so itself, and its external address, if any, leads to it.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from gpuaas.core.errors import GpuaasError, NoCapacity, Permanent
from gpuaas.core.ids import moment_of, uuid_read
from gpuaas.core.terminal import plain
from gpuaas.providers.base import STAGE_WORDS, ClusterNode, NodeReport, Stage
from gpuaas.providers.base.boots import Boots
from gpuaas.providers.openstack import names, placing, servers
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters.place import Place

CLUSTER, POOL, KIND = names.CLUSTERS, "gpuaas-pool", "gpuaas-kind"
BOOT, RELEASE, TOKEN = "gpuaas-boot", "gpuaas-release", "gpuaas-token"
# the boot whose failure was raised; whether it was ever upgraded
FAILED_BOOT, UPGRADED = "gpuaas-told", "gpuaas-upgraded"
OUTSIDE = "gpuaas-outside"  # the external address that it was created with

OURS = "gpuaas: "  # how the guest's own sentences begin on its console
CONSOLE_LINES, LINE_MOST = 100, 300


def pool_of(server: Object) -> str:
    return str(server["metadata"].get(POOL) or "")


def report_of(server: Object, boots: Boots) -> NodeReport | None:
    return boots.reports.get(str(server["metadata"].get(BOOT)))


def is_going(server: Object) -> bool:
    return server.get("OS-EXT-STS:task_state") == "deleting" or server["status"] in {
        "DELETED",
        "SOFT_DELETED",
    }


def astray(servers_there: Iterable[Object], place: Place) -> set[str]:
    """Ids of running machines whose external address does not lead to them. Makes no call if none has one."""
    expected = {
        row["id"]: row["metadata"][OUTSIDE]
        for row in servers_there
        if row["status"] == "ACTIVE" and row["metadata"].get(OUTSIDE)
    }
    led = (
        {row["floating_ip_address"] for row in place.addresses.all() if row["port_id"]} if expected else set()
    )
    return {server for server, address in expected.items() if address not in led}


def trouble(server: Object, boots: Boots, lost: Collection[str] = ()) -> str:
    """Why it is not ready, in words; "" if it is. lost: ids of machines whose address leads elsewhere."""
    if is_going(server):
        return "it is being deleted"
    if server["status"] == "ERROR":
        return servers.reason_in_words(fault(server)) if fault(server) else "the site reports ERROR"
    if server["status"] == "BUILD":
        return "Nova is creating it"
    if server["status"] != "ACTIVE":
        return f"the site reports {server['status']}"
    if server["id"] in lost:
        return "its external address does not lead to it"
    report = report_of(server, boots)
    if report is None:
        return "it exists but has not reported yet"
    if report.stage is Stage.FAILED:
        return f"it could not be set up: {report.message.splitlines()[0] if report.message else 'it gave no reason'}"
    return "" if report.stage is Stage.READY else STAGE_WORDS[report.stage]


def node_of(server: Object, boots: Boots, lost: Collection[str] = ()) -> ClusterNode:
    reason = trouble(server, boots, lost)
    release = str(server["metadata"].get(RELEASE) or "")
    return ClusterNode(server["name"], pool_of(server), release, ready=not reason, reason=reason)


def begun_at(server: Object) -> datetime | None:
    """None if somebody removed our metadata."""
    boot = uuid_read(server["metadata"].get(BOOT))
    return moment_of(boot) if boot else None


def fault(server: Object) -> str:
    return str((server.get("fault") or {}).get("message") or "")


def console_words(cloud: Cloud, server: Object) -> list[str]:
    """The last sentence that the machine's own scripts wrote to its console, or else its last line: one sentence, or nothing where
    Nova has no console of it. What is there, users of the machine may have written."""
    try:
        answer = cloud.post(
            "compute",
            f"/servers/{server['id']}/action",
            {"os-getConsoleOutput": {"length": CONSOLE_LINES}},
        )
    except GpuaasError:  # a machine that never came up has none; it is evidence only
        return []
    line, is_ours = console_line(str(answer.get("output") or ""))
    return [f"{'the setup wrote' if is_ours else 'the last line on its console is'}: {line}"] if line else []


def console_line(output: str) -> tuple[str, bool]:
    """(a line without anything that is not text, whether our scripts wrote it)."""
    lines = [" ".join(line.split()) for line in plain(output).splitlines()]
    ours = [line.partition(OURS)[2] for line in lines if OURS in line]
    last = [line for line in lines if line][-1:]
    found = (ours or last or [""])[-1]
    return found[:LINE_MOST], bool(ours)


def not_made(server: Object, pool: str) -> NoCapacity | Permanent:
    """With Nova's own message."""
    message = fault(server)
    detail = {
        "evidence": [f"{server['name']}: {message or 'Nova gives no reason'}"],
        "next": "Retry when others have released GPUs, or scale the pool to fewer workers.",
    }
    if any(words in message for words in placing.NO_HOST):
        what = f"a worker of the pool {pool}" if pool else "the head"
        return NoCapacity(f"no host of the site has room for {what}", detail=detail)
    detail["next"] = (
        "Retry; if it fails again, an operator must find out on the host why it cannot start machines."
    )
    return Permanent(
        f"the site could not create {server['name']}: {servers.reason_in_words(message)}", detail=detail
    )


def boot_failed(server: Object, report: NodeReport) -> Permanent:
    lines = [line for line in report.message.splitlines() if line.strip()]
    cause = lines[0] if lines else "it gave no reason"
    after = f" after the stage {report.passed}" if report.passed else ""
    return Permanent(
        f"{server['name']} could not be set up{after}: {cause}",
        detail={
            "evidence": lines[-20:] or [f"{server['name']}: {cause}"],
            "next": "Retry: the machine is recreated. If it fails again, an operator must check the template's image, packages "
            "and addresses.",
        },
    )
