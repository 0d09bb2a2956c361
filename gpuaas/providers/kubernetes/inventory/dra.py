"""GPUs that DRA drivers publish: devices in ResourceSlices, sold by the device class that selects one kind of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpuaas.core.errors import Unauthorized
from gpuaas.providers.kubernetes import names
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.kubernetes.inventory import slices
from gpuaas.providers.kubernetes.inventory.counters import Budget, groups_of
from gpuaas.providers.kubernetes.inventory.found import Found
from gpuaas.providers.kubernetes.inventory.selectors import Selector
from gpuaas.providers.kubernetes.inventory.slices import Device, Key, Labels

GROUP = "/apis/resource.k8s.io"
DRA = f"{GROUP}/v1"


@dataclass(frozen=True)
class Claimable:
    """unnamed: node → GPUs there that no device class selects, in words. names: of all classes of the site."""

    found: list[Found] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    unnamed: dict[str, str] = field(default_factory=dict)


def devices(api: Api, labels: Labels, listed: Iterable[Object]) -> Claimable:
    """`listed`: the site's ResourceSlices."""
    published = slices.current(listed)
    classes = api.items_if_known(f"{DRA}/deviceclasses")
    if not published:
        return Claimable(names={_resource(each) for each in classes})
    rules = _taint_rules(api)
    gpus = [gpu for pool, rows in published.items() for gpu in slices.devices_of(pool, rows, labels, rules)]
    taken = _claimed(api.items_if_known(f"{DRA}/resourceclaims"))
    selected = {each["metadata"]["name"]: _selected(each, gpus) for each in classes}
    assigned = _assigned(gpus, selected)
    resources = {each["metadata"]["name"]: _resource(each) for each in classes}
    counted = _Counting(Budget(published), taken, gpus)
    return Claimable(
        found=[
            each
            for (_, chosen), members in assigned.items()
            for each in counted.by_place(members, resources[chosen], _reach(members, selected, resources))
        ],
        names=set(resources.values()),
        unnamed=_unnamed(gpus, assigned.values()),
    )


def _resource(device_class: Object) -> str:
    spec = device_class.get("spec") or {}
    return names.resource_of(device_class["metadata"]["name"], spec.get("extendedResourceName"))


def _selected(device_class: Object, gpus: Iterable[Device]) -> frozenset[Key]:
    selector = Selector(device_class)
    return frozenset(gpu.key for gpu in gpus if selector.selects(gpu.key[0], gpu.body))


def _assigned(
    gpus: Sequence[Device], selected: dict[str, frozenset[Key]]
) -> dict[tuple[str, str], list[Device]]:
    """(kind, class) → its devices. A class that selects one kind and nothing else sells it; of several the widest.

    What only a class for several kinds selects is sold by that, and told apart by its nodes.
    """
    by_kind: dict[str, list[Device]] = {}
    for gpu in gpus:
        by_kind.setdefault(gpu.kind.slug, []).append(gpu)
    found: dict[tuple[str, str], list[Device]] = {}
    for slug, members in by_kind.items():
        left = {gpu.key: gpu for gpu in members}
        own = frozenset(left)
        narrow = [name for name, keys in selected.items() if keys and keys <= own]
        wide = [name for name, keys in selected.items() if keys & own and not keys <= own]
        for name in sorted(narrow, key=lambda name: (-len(selected[name]), name)):
            if selected[name] <= left.keys():
                found[slug, name] = [left.pop(key) for key in sorted(selected[name])]
        for name in sorted(wide, key=lambda name: (len(selected[name]), name)):
            if rest := selected[name] & left.keys():
                found[slug, name] = [left.pop(key) for key in sorted(rest)]
    return found


def _reach(
    members: Iterable[Device], selected: dict[str, frozenset[Key]], resources: dict[str, str]
) -> frozenset[str]:
    """Every name by which somebody could be given one of them."""
    keys = {gpu.key for gpu in members}
    return frozenset(resources[name] for name, chosen in selected.items() if chosen & keys)


def _unnamed(gpus: Iterable[Device], assigned: Iterable[list[Device]]) -> dict[str, str]:
    sold = {gpu.key for members in assigned for gpu in members}
    kinds: dict[str, set[str]] = {}
    for gpu in gpus:
        if gpu.key not in sold:
            kinds.setdefault(gpu.place, set()).add(gpu.kind.name)
    return {
        place: f"no device class selects {' or '.join(sorted(names_))}, so it cannot be sold"
        for place, names_ in kinds.items()
    }


class _Counting:
    """How many there are, are held, and could be given out, on each node."""

    def __init__(self, budget: Budget, taken: set[Key], gpus: Iterable[Device]) -> None:
        self._full = budget
        self._taken = taken
        self._left = budget.copy()
        self._groups: dict[tuple[str, str, str], set[str]] = {}
        for gpu in gpus:
            if gpu.key in taken:
                self._left.use(gpu)
            for group in groups_of(gpu):
                self._groups.setdefault(group, set()).add(gpu.kind.slug)

    def by_place(self, members: Iterable[Device], resource: str, reach: frozenset[str]) -> list[Found]:
        places: dict[str, list[Device]] = {}
        for gpu in members:
            places.setdefault(gpu.place, []).append(gpu)
        return [self._found(place, gpus, resource, reach) for place, gpus in places.items()]

    def _found(self, place: str, gpus: list[Device], resource: str, reach: frozenset[str]) -> Found:
        capacity = self._full.copy().fit(gpus)
        allocated = sum(gpu.key in self._taken for gpu in gpus)
        free = self._left.copy().fit(gpu for gpu in gpus if gpu.key not in self._taken and not gpu.sick)
        sick = sum(gpu.sick for gpu in gpus)
        cut_from_same = {slug for gpu in gpus for group in groups_of(gpu) for slug in self._groups[group]}
        return Found(
            node=place,
            kind=gpus[0].kind,
            resource_name=resource,
            capacity=capacity,
            allocated=allocated,
            labels=gpus[0].labels,
            unhealthy=min(max(sick, capacity - allocated - free), capacity),
            names=reach,
            shares_with=frozenset(cut_from_same - {gpus[0].kind.slug}),
            dra=True,
        )


def _claimed(claims: Iterable[Object]) -> set[Key]:
    """A look with admin access holds nothing."""
    found = set()
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            if not result.get("adminAccess"):
                found.add((result["driver"], result["pool"], result["device"]))
    return found


def _taint_rules(api: Api) -> list[Object]:
    """Of the newest version that the site serves. Who may not read them sees the taints in the slices only."""
    group = api.find(GROUP) or {}
    for version in [each["version"] for each in group.get("versions") or []]:
        served = (api.find(f"{GROUP}/{version}") or {}).get("resources") or []
        if any(each["name"] == "devicetaintrules" for each in served):
            try:
                return api.items(f"{GROUP}/{version}/devicetaintrules")
            except Unauthorized:
                return []
    return []
