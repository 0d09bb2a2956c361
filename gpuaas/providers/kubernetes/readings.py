"""What a page of DCGM's exporter says of the use of each card, slice and share. Anything absurd in it is left out."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from prometheus_client.samples import Sample

from gpuaas.providers.base import DeviceReading

MOST = 256  # of one node: 16 cards of 7 slices, with room
_DEVICE = re.compile(r"[A-Za-z0-9-]{1,64}")
_SHORT = re.compile(r"[A-Za-z0-9.+-]{1,16}")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_PRODUCT = re.compile(r"[ -~]{1,100}")


@dataclass(frozen=True)
class Figure:
    """The field of a reading that a metric is, and what it can be. DCGM writes huge numbers for what it does not know."""

    name: str
    most: float
    least: float = 0
    times: float = 1
    of_card: bool = False  # told of a slice, it is still the whole card's


FIGURES = {
    "DCGM_FI_DEV_GPU_UTIL": Figure("utilization", 100),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Figure("engine", 100, times=100),
    "DCGM_FI_DEV_FB_USED": Figure("memory_used_mib", 2**22),
    "DCGM_FI_DEV_FB_FREE": Figure("memory_free_mib", 2**22),
    "DCGM_FI_DEV_POWER_USAGE": Figure("power_watts", 5000, of_card=True),
    "DCGM_FI_DEV_GPU_TEMP": Figure("temperature", 150, least=-40),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Figure("energy_mj", 2**53, of_card=True),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": Figure("sent", 1e14, of_card=True),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": Figure("received", 1e14, of_card=True),
    "DCGM_FI_DEV_XID_ERRORS": Figure("xid", 9999),
}
OF_POD = ("namespace", "pod", "container")
WHOLE_NUMBERS = ("memory_used_mib", "memory_free_mib", "temperature", "energy_mj", "xid")
Key = tuple[str, str, str, str]  # device, slice, namespace, pod


@dataclass
class _Part:
    """A card, slice or share while its page is read."""

    labels: Mapping[str, str]
    values: dict[str, float] = field(default_factory=dict)


def readings(node: str, samples: Iterable[Sample], *, space: str = "") -> tuple[DeviceReading, ...]:
    """One for each device and pod that has it; a card without a pod is none beside the pods that it is told for. space: the
    namespace of the exporter itself."""
    parts: dict[Key, _Part] = {}
    for sample in samples:
        labels = _of_device(sample.labels, space)
        figure, key = FIGURES.get(sample.name), _key(labels)
        if figure is None or key is None or (len(parts) >= MOST and key not in parts):
            continue
        part = parts.setdefault(key, _Part(labels))
        value = sample.value * figure.times
        if math.isfinite(value) and figure.least <= value <= figure.most:
            part.values[figure.name] = value
    found = [_reading(node, key, part) for key, part in sorted(parts.items())]
    return tuple(_unshared(found))


def _key(labels: Mapping[str, str]) -> Key | None:
    device = _told(_DEVICE, labels, "UUID")
    return (device, _told(_SHORT, labels, "GPU_I_ID"), *_pod(labels)) if device else None


def _of_device(labels: Mapping[str, str], space: str) -> Mapping[str, str]:
    """As the exporter named the pod. A Prometheus between it and us has renamed that, and names the exporter in its place; any other
    label of such a name is one that a tenant gave to a pod."""
    if labels.get("namespace", "") != space:
        return labels
    return {
        **labels,
        **{name: labels[f"exported_{name}"] for name in OF_POD if labels.get(f"exported_{name}")},
    }


def _pod(labels: Mapping[str, str]) -> tuple[str, str]:
    """Of the device."""
    namespace, pod = _told(_NAME, labels, "namespace"), _told(_NAME, labels, "pod")
    return (namespace, pod) if namespace and pod else ("", "")


def _told(allowed: re.Pattern[str], labels: Mapping[str, str], name: str) -> str:
    value = labels.get(name, "")
    return value if allowed.fullmatch(value) else ""


def _reading(node: str, key: Key, part: _Part) -> DeviceReading:
    (device, instance, namespace, pod), labels = key, part.labels
    values = {name: value for name, value in part.values.items() if not (instance and _is_of_card(name))}
    engine = values.pop("engine", None)
    if engine is not None and (instance or "utilization" not in values):
        values["utilization"] = engine
    elif instance:
        values.pop("utilization", None)  # of the whole card
    links = [values.pop(name) for name in ("sent", "received") if name in values]
    whole = {name: int(values.pop(name)) for name in WHOLE_NUMBERS if name in values}
    return DeviceReading(
        node=node,
        device=device,
        index=_told(_SHORT, labels, "gpu"),
        instance=instance,
        profile=_told(_SHORT, labels, "GPU_I_PROFILE") if instance else "",
        product=_told(_PRODUCT, labels, "modelName"),
        namespace=namespace,
        pod=pod,
        container=_told(_NAME, labels, "container"),
        nvlink=int(sum(links)) if links else None,
        utilization=values.get("utilization"),
        power_watts=values.get("power_watts"),
        **whole,
    )


def _is_of_card(name: str) -> bool:
    return any(figure.of_card for figure in FIGURES.values() if figure.name == name)


def _unshared(found: list[DeviceReading]) -> list[DeviceReading]:
    """Of a device that several pods share, what is told is told of all of them together: nobody's power or energy."""
    held: dict[tuple[str, str], int] = {}
    for each in found:
        if each.pod:
            held[each.device, each.instance] = held.get((each.device, each.instance), 0) + 1
    made = []
    for each in found:
        pods = held.get((each.device, each.instance), 0)
        if pods and not each.pod:
            continue  # the same card again, by a metric that names no pod
        made.append(replace(each, power_watts=None, energy_mj=None, nvlink=None) if pods > 1 else each)
    return made
