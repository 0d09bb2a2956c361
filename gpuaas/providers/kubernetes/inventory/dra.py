"""GPUs published by DRA drivers: devices in ResourceSlices, sold by the device class that selects one kind of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuaas.core.errors import Unauthorized
from gpuaas.providers.base import SoldPool, Unknown
from gpuaas.providers.contracts import Sold, earlier_slug, slugs_of
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.inventory import slices
from gpuaas.providers.kubernetes.inventory.counters import Budget, groups_of
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.selectors import Selector
from gpuaas.providers.kubernetes.inventory.slices import Device, Key, Labels

GROUP = "/apis/resource.k8s.io"
DRA = f"{GROUP}/v1"


@dataclass(frozen=True)
class Claimable:
    """unnamed: node → GPUs there that no device class selects, in words; they are in `unknown`, as are devices that say they are
    GPUs and not which. names: of all classes of the site.

    seconds: classes besides the one that GPUs are sold by, in words.
    """

    found: list[Found] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    unnamed: dict[str, str] = field(default_factory=dict)
    seconds: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()


@dataclass(frozen=True)
class Class:
    """A device class: its resource name, what was sold by it, and trouble with the sold name, in words."""

    name: str
    resource: str
    selected: frozenset[Key]
    sold: tuple[SoldPool, ...] = ()
    trouble: str = ""

    @property
    def resource_sold(self) -> str:
        return self.sold[0].resource_name if self.sold else self.resource


def devices(
    api: Api,
    labels: Labels,
    listed: Iterable[Object],
    claims: Iterable[Object],
    ours: frozenset[str],
    sold: Sold = (),
) -> Claimable:
    """`listed`, `claims`: the site's ResourceSlices and ResourceClaims. `ours`: the namespaces whose claims are not others'."""
    published = slices.current(listed)
    classes = api.items_if_known(f"{DRA}/deviceclasses")
    every_name = {name for each in classes for name in _names(each)}
    if not published:
        return Claimable(names=every_name)
    rules = _taint_rules(api)
    gpus = [gpu for pool, rows in published.items() for gpu in slices.devices_of(pool, rows, labels, rules)]
    taken = _claimed(claims, ours)
    known = _classes(classes, gpus, sold)
    assigned = _assigned(gpus, known)
    counted = _Counting(Budget(published), taken, gpus)
    unnamed = _unnamed(gpus, assigned.values())
    return Claimable(
        found=[
            each
            for (_, chosen), members in assigned.items()
            for each in counted.by_place(
                members, known[chosen], _reach(members, known.values()), _also(members, known[chosen], known)
            )
        ],
        names=every_name,
        unnamed={each.place: each.reason for each in unnamed},
        unknown=(*unnamed, *slices.unknown(published)),
        seconds=_seconds(known, assigned),
    )


def _classes(rows: Sequence[Object], gpus: Sequence[Device], sold: Sold) -> dict[str, Class]:
    """By name, oldest first. A name that was sold before its class was recorded belongs to the oldest class."""
    ordered = sorted(
        rows, key=lambda row: (row["metadata"].get("creationTimestamp", ""), row["metadata"]["name"])
    )
    resources = {row["metadata"]["name"]: _resource(row) for row in ordered}
    oldest = {resource: name for name, resource in reversed(resources.items())}
    by_class: dict[str, list[SoldPool]] = {}
    for each in sold:
        by_class.setdefault(each.device_class or oldest.get(each.resource_name, ""), []).append(each)
    return {
        row["metadata"]["name"]: Class(
            name=(name := row["metadata"]["name"]),
            resource=resources[name],
            selected=_selected(row, gpus),
            sold=tuple(by_class.get(name, ())),
            trouble=_renamed(name, resources, by_class.get(name, ())),
        )
        for row in ordered
    }


def _renamed(name: str, resources: dict[str, str], sold: Iterable[SoldPool]) -> str:
    """Trouble with a sold name: Kubernetes assigns a resource name to the newest class that declares it."""
    for each in sold:
        if resources[name] != each.resource_name:
            return (
                f"the device class {name} is now called {resources[name]} but was sold as {each.resource_name}: "
                f"claims of the class still work, but pods that request the sold name wait"
            )
        rivals = sorted(
            other for other, resource in resources.items() if resource == resources[name] and other != name
        )
        if rivals:
            return (
                f"the device class {rivals[0]} also uses {each.resource_name}, the name that {name} was sold by: "
                f"pods that request it get the GPUs of the newer class"
            )
    return ""


def _names(device_class: Object) -> set[str]:
    """Including the implicit name, so that it stays closed if the class is deleted and recreated."""
    return {_resource(device_class), names.implicit_resource(device_class["metadata"]["name"])}


def _resource(device_class: Object) -> str:
    spec = device_class.get("spec") or {}
    return names.resource_of(device_class["metadata"]["name"], spec.get("extendedResourceName"))


def _selected(device_class: Object, gpus: Iterable[Device]) -> frozenset[Key]:
    selector = Selector(device_class)
    return frozenset(gpu.key for gpu in gpus if selector.selects(gpu.key[0], gpu.body))


def _assigned(gpus: Sequence[Device], classes: dict[str, Class]) -> dict[tuple[str, str], list[Device]]:
    """(kind, class) → its devices. Sold devices stay with their class, as far as it still selects them. Otherwise a class
    that selects only one kind sells it; of several the one that selects most.

    Devices selected only by classes for several kinds are sold by those, and distinguished by their nodes.
    """
    selected = {name: each.selected for name, each in classes.items()}
    by_kind: dict[str, list[Device]] = {}
    for gpu in gpus:
        by_kind.setdefault(gpu.kind.slug, []).append(gpu)
    found: dict[tuple[str, str], list[Device]] = {}
    for slug, members in by_kind.items():
        left = {gpu.key: gpu for gpu in members}
        own = frozenset(left)
        for name in _sold_first(slug, classes):
            if rest := selected[name] & left.keys():
                found[slug, name] = [left.pop(key) for key in sorted(rest)]
        narrow = [name for name, keys in selected.items() if keys and keys <= own]
        wide = [name for name, keys in selected.items() if keys & own and not keys <= own]
        for name in sorted(narrow, key=lambda name: (-len(selected[name]), name)):
            if (slug, name) not in found and selected[name] <= left.keys():
                found[slug, name] = [left.pop(key) for key in sorted(selected[name])]
        for name in sorted(wide, key=lambda name: (len(selected[name]), name)):
            if rest := selected[name] & left.keys():
                found[slug, name] = [left.pop(key) for key in sorted(rest)]
    return found


def _sold_first(slug: str, classes: dict[str, Class]) -> list[str]:
    """Classes by which this kind was sold, oldest first."""
    return [
        each.name
        for each in classes.values()
        if any(
            pool.kind_slug in slugs_of(called, pool.resource_name)
            for pool in each.sold
            for called in (slug, earlier_slug(slug))
        )
    ]


def _reach(members: Iterable[Device], classes: Iterable[Class]) -> frozenset[str]:
    """Every name by which one of the devices can be allocated."""
    keys = {gpu.key for gpu in members}
    return frozenset(
        name for each in classes if each.selected & keys for name in (each.resource, each.resource_sold)
    )


def _also(members: Iterable[Device], chosen: Class, classes: dict[str, Class]) -> frozenset[str]:
    """Kubernetes resolves a resource name to the newest class of that name: if that selects nothing else, the same devices
    are also charged to that class."""
    keys = {gpu.key for gpu in members}
    alike = [
        each.name
        for each in classes.values()
        if each.resource == chosen.resource_sold and each.selected and each.selected <= keys
    ]
    found = {chosen.resource, *map(names.implicit_resource, (chosen.name, *alike))}
    return frozenset(found - {chosen.resource_sold})


def _seconds(classes: dict[str, Class], assigned: dict[tuple[str, str], list[Device]]) -> tuple[str, ...]:
    """Unsold classes that select devices which are sold by another class."""
    sold = [
        (classes[name].resource_sold, {gpu.key for gpu in gpus})
        for (_, name), gpus in assigned.items()
        if classes[name].sold
    ]
    found = [
        f"the device class {each.name} selects GPUs that are sold as {resource}"
        for each in classes.values()
        for resource, keys in sold
        if not each.sold and each.selected & keys
    ]
    return tuple(sorted(set(found)))


def _unnamed(gpus: Iterable[Device], assigned: Iterable[list[Device]]) -> list[Unknown]:
    sold = {gpu.key for members in assigned for gpu in members}
    kinds: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu.key not in sold:
            kinds.setdefault(gpu.place, []).append(gpu.kind.name)
    found = {place: " or ".join(sorted(set(names_))) for place, names_ in kinds.items()}
    return [
        Unknown(place, name, len(kinds[place]), f"no device class selects {name}, so it cannot be sold")
        for place, name in sorted(found.items())
    ]


class _Counting:
    """Counts capacity, allocated and free devices on each node."""

    def __init__(self, budget: Budget, taken: Mapping[Key, bool], gpus: Iterable[Device]) -> None:
        self._full = budget
        self._taken = taken
        self._left = budget.copy()
        self._groups: dict[tuple[str, str, str], set[str]] = {}
        for gpu in gpus:
            if gpu.key in taken:
                self._left.use(gpu)
            for group in groups_of(gpu):
                self._groups.setdefault(group, set()).add(gpu.kind.slug)

    def by_place(
        self, members: Iterable[Device], chosen: Class, reach: frozenset[str], also: frozenset[str]
    ) -> list[Found]:
        places: dict[str, list[Device]] = {}
        for gpu in members:
            places.setdefault(gpu.place, []).append(gpu)
        return [self._found(place, gpus, chosen, reach, also) for place, gpus in places.items()]

    def _found(
        self, place: str, gpus: list[Device], chosen: Class, reach: frozenset[str], also: frozenset[str]
    ) -> Found:
        capacity = self._full.copy().fit(gpus)
        allocated = sum(gpu.key in self._taken for gpu in gpus)
        free = self._left.copy().fit(gpu for gpu in gpus if gpu.key not in self._taken and not gpu.sick)
        sick = sum(gpu.sick for gpu in gpus)
        cut_from_same = {slug for gpu in gpus for group in groups_of(gpu) for slug in self._groups[group]}
        return Found(
            node=place,
            kind=gpus[0].kind,
            resource_name=chosen.resource_sold,
            capacity=capacity,
            allocated=allocated,
            others=sum(not self._taken.get(gpu.key, True) for gpu in gpus),
            labels=gpus[0].labels,
            unhealthy=min(max(sick, capacity - allocated - free), capacity),
            names=reach,
            shares_with=frozenset(cut_from_same - {gpus[0].kind.slug}),
            dra=True,
            device_class=chosen.name,
            also=also,
            trouble=chosen.trouble,
        )


def _claimed(claims: Iterable[Object], ours: frozenset[str]) -> dict[Key, bool]:
    """Whether it is ours alone, by device. Admin access holds nothing."""
    found: dict[Key, bool] = {}
    for claim in claims:
        own = claim["metadata"].get("namespace", "") in ours
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            if not result.get("adminAccess"):
                key = (result["driver"], result["pool"], result["device"])
                found[key] = found.get(key, True) and own
    return found


def _taint_rules(api: Api) -> list[Object]:
    """In the newest version that the site serves. Without the right to read them only taints in the slices count."""
    group = api.find(GROUP) or {}
    for version in [each["version"] for each in group.get("versions") or []]:
        served = (api.find(f"{GROUP}/{version}") or {}).get("resources") or []
        if any(each["name"] == "devicetaintrules" for each in served):
            try:
                return api.items(f"{GROUP}/{version}/devicetaintrules")
            except Unauthorized:
                return []
    return []
