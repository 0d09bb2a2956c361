"""What a flavor requires of its nodes and how what runs is placed, in words."""

from frontend.components import Fact
from frontend.presenters.words import words_of
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.offers import notice_words
from gpuaas.catalog.states import HugepagesSize
from gpuaas.providers.base import Placement
from gpuaas.workspaces.models import Workspace

PLACEMENTS = {
    Placement.ANYWHERE: ("Anywhere", "{what} run wherever GPUs are free"),
    Placement.NODE: ("One node", "{what} are placed on one node when there is room"),
    Placement.RACK: ("One rack", "{what} are placed in one rack when there is room"),
    Placement.NVLINK_DOMAIN: (
        "One NVLink domain",
        "{what} are placed on nodes joined by NVLink when there is room",
    ),
}


def tuning_words(flavor: Flavor) -> tuple[str, ...]:
    """That it is lent, and requirements on nodes beyond GPUs, in short; empty for a plain flavor."""
    found = [notice_words(flavor.notice_seconds)] if flavor.is_lent else []
    if flavor.whole_node:
        found.append("whole nodes")
    if flavor.exclusive_cpus:
        found.append("whole cores")
    if flavor.hugepages_gib:
        size = HugepagesSize(flavor.hugepages_size).label
        found.append(f"{flavor.hugepages_gib:,} GiB in hugepages of {size}")
    if flavor.profile:
        found.append(f"node profile {flavor.profile}")
    if flavor.sysctls:
        found.append(f"sysctl {', '.join(flavor.sysctls)}")
    return tuple(found)


def nodes_words(flavor: Flavor) -> tuple[str, ...]:
    """Known traits of the nodes of a flavor that was loaded with them."""
    known = (("same_numa", "same NUMA node"), ("same_rack", "same rack"), ("nvlink_domain", "NVLink domain"))
    arch = (f"{flavor.pool.arch} processors",) if flavor.pool.arch not in ("", "amd64") else ()
    return (*arch, *(words for name, words in known if getattr(flavor, name, False)))


def placement_words(placement: str, site: Site) -> tuple[str, str]:
    name, note = PLACEMENTS[Placement(placement)]
    return name, note.format(what=words_of(site).consumers)


def setup_facts(workspace: Workspace) -> tuple[Fact, ...]:
    """The placement of the workspace, and the node requirements of each tuned flavor."""
    name, note = placement_words(workspace.placement, workspace.site)
    flavors = [item.flavor for item in workspace.flavors.all()]
    tuned = [(flavor.name, "; ".join(tuning_words(flavor))) for flavor in flavors]
    spot = Fact("Spot", f"{notice_words(workspace.notice_seconds)}. Only what runs is charged.")
    return (
        *((spot,) if workspace.is_spot else ()),
        Fact(f"Placement: {name}", f"{note[:1].upper()}{note[1:]}."),
        *(Fact(f"{name}, tuned", f"{words[:1].upper()}{words[1:]}.") for name, words in tuned if words),
    )


def nodes_give(pool: GpuPool) -> tuple[Fact, ...]:
    """What a flavor of the pool may require: only what all its nodes have."""
    nodes = [node for node in pool.nodes.all() if node.capacity]
    sizes = {size for node in nodes for size, gib in node.hugepages.items() if gib}
    least = {size: min(int(node.hugepages.get(size, 0)) for node in nodes) for size in sizes}
    pages = [f"{gib:,} GiB of {size}" for size, gib in sorted(least.items()) if gib]
    profiles, devices = {node.profile for node in nodes}, {node.capacity for node in nodes}
    return (
        Fact("Whole nodes", f"{devices.pop()} GPUs each" if len(devices) == 1 else "sizes differ"),
        Fact("Whole cores", "yes" if nodes and all(node.cpus == "static" for node in nodes) else "no"),
        Fact("Hugepages", ", ".join(pages) or "none"),
        Fact("Profile", next(iter(profiles)) or "none" if len(profiles) == 1 else "differs between nodes"),
    )
