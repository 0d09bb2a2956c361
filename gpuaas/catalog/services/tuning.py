"""What a flavor may require of its nodes: only what every node of its pool has, so that it never waits for one."""

import re
from collections.abc import Callable, Sequence

from gpuaas.catalog.models import Flavor, GpuPool, Node
from gpuaas.catalog.services.contracts import pools_lock
from gpuaas.catalog.site import held_of
from gpuaas.catalog.states import OfferState
from gpuaas.core.errors import Conflict, Invalid

STATIC = "static"
MAX_SYSCTLS = 32
# of a container's own namespaces: setting one changes nothing for its neighbors on the node
NAMESPACED = re.compile(r"kernel\.(?:shm[a-z_]*|msg[a-z_]*|sem)|fs\.mqueue\.[a-z_]+|net(?:\.[a-z0-9_-]+)+")
PROFILE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def tuning_require(flavor: Flavor) -> None:
    """Raises Invalid at the field that requires too much."""
    nodes = [node for node in flavor.pool.nodes.order_by("name") if node.capacity]
    if flavor.hugepages_gib >= flavor.memory_gib > 0:
        raise Invalid.field(
            "hugepages_gib",
            f"hugepages are a part of the flavor's memory ({flavor.memory_gib} GiB) and must leave some of it",
        )
    if flavor.whole_node:
        others = _lacking(nodes, lambda node: node.capacity == flavor.gpus)
        _refuse("whole_node", others, f"have a number of GPUs other than {flavor.gpus}")
    if flavor.hugepages_size:
        size, gib = flavor.hugepages_size, flavor.hugepages_gib
        others = _lacking(nodes, lambda node: node.hugepages.get(size, 0) >= gib)
        _refuse("hugepages_gib", others, f"do not have {gib} GiB of {size} hugepages")
    if flavor.exclusive_cpus:
        others = _lacking(nodes, lambda node: node.cpus == STATIC)
        _refuse(
            "exclusive_cpus",
            others,
            "lack the label gpuaas.io/cpu-policy=static for exclusive cores",
        )
    if flavor.profile:
        others = _lacking(nodes, lambda node: node.profile == flavor.profile)
        _refuse("profile", others, f"lack the label gpuaas.io/profile={flavor.profile}")


def pool_require(flavor: Flavor) -> None:
    """Raises Conflict if the pool cannot be told apart, or if its hardware is sold in another shape. Of two operators one is
    first, and a look at the site that is under way can give the pool no other name: it is sold by the one it has."""
    pools_lock(flavor.pool.site_id)
    pool = GpuPool.objects.select_related("site", "gpu_type").get(pk=flavor.pool_id)
    if pool.trouble:
        label = pool.site.options.get("pool_label") or "gpuaas.io/pool"
        raise Conflict(
            f"{pool.gpu_type} at {pool.site} cannot be sold: {pool.trouble}; label the nodes of each "
            f"GPU type with {label}=<unique name>"
        )
    if not pool.shares_with:
        return
    cut = GpuPool.objects.filter(site=pool.site, gpu_type__slug__in=[pool.gpu_type.slug, *pool.shares_with])
    rivals = Flavor.objects.filter(pool__in=cut.exclude(pk=pool.pk), state=OfferState.ACTIVE)
    if rival := rivals.order_by("slug").first():
        raise Conflict(
            f"{pool.gpu_type} at {pool.site} is cut from the same GPUs as the flavor {rival.slug}, "
            "which is sold: they would be promised twice; retire that flavor first"
        )
    for other in cut.exclude(pk=pool.pk).filter(trouble="").select_related("gpu_type").order_by("pk"):
        if held := held_of(other):
            raise Conflict(
                f"{pool.gpu_type} at {pool.site} is cut from the same GPUs as {held:,} {other.gpu_type.name} that workspaces or "
                "clusters still hold: they would be promised twice; publish it once those are given back"
            )


def words_require(flavor: Flavor) -> None:
    """Raises Invalid for requirements that no node could meet."""
    names = flavor.sysctls
    if not isinstance(names, list) or len(names) > MAX_SYSCTLS:
        raise Invalid.field("sysctls", f"name at most {MAX_SYSCTLS} sysctls, as a list")
    for name in names:
        if not isinstance(name, str) or len(name) > 120 or not NAMESPACED.fullmatch(name):
            raise Invalid.field(
                "sysctls",
                f"{str(name)[:60]!r} is not a sysctl that a pod may set; allowed: kernel.shm*, "
                "kernel.msg*, kernel.sem, fs.mqueue.* and net.*",
            )
    if len(set(names)) != len(names):
        raise Invalid.field("sysctls", "list each sysctl only once")
    if flavor.profile and not PROFILE.fullmatch(flavor.profile):
        raise Invalid.field(
            "profile", "a profile is the value of a node label: letters, digits, hyphens and dots"
        )
    if bool(flavor.hugepages_size) != bool(flavor.hugepages_gib):
        raise Invalid.field("hugepages_gib", "give both the page size and the GiB of hugepages")


def _lacking(nodes: Sequence[Node], has: Callable[[Node], bool]) -> list[str]:
    """Names of the nodes that do not meet it; a pool without nodes guarantees nothing."""
    return [node.name for node in nodes if not has(node)] if nodes else ["the pool has no nodes, so they"]


def _refuse(field: str, nodes: Sequence[str], what: str) -> None:
    if nodes:
        named = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
        raise Invalid.field(field, f"not every node of the pool meets this: {named} {what}")
