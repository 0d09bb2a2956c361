"""Reads from DCGM's exporter which of each node's cards should take no work, and what all of them do (readings.py).

Its pods are asked through the API server (pods/proxy), each at most once in a round, several at a time.
"""

import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gpuaas.core.errors import GpuaasError, Unauthorized
from gpuaas.providers.base import Check, DeviceReading, NodeHealth
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import health
from gpuaas.providers.kubernetes.readings import OF_POD, readings
from gpuaas.providers.verdicts import Kind, some

CARDS = Kind("CardsHealthy")

AT_ONCE, ASK_SECONDS, ROUND_SECONDS = 8, 5.0, 40.0
FRESH_SECONDS = 30.0  # an exporter looks at its cards no more often
MOST_BYTES = 4 * 1024 * 1024
DEFAULT_PORT = 9400
LABEL = re.compile(r'\b([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
# XIDs that a tenant's program causes itself; the card is healthy
XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
_SICK_ABOVE_ZERO = {
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "double-bit memory errors",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "a memory row that could not be remapped",
}


@dataclass
class Card:
    """One card. reasons: why the whole card ("") or one of its slices should take no work."""

    slices: dict[str, str] = field(default_factory=dict)  # id → MIG profile
    reasons: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """What one exporter told."""

    health: NodeHealth
    readings: tuple[DeviceReading, ...]


class Exporters:
    """Of one site. Whoever asks for pages again within FRESH_SECONDS gets the same ones."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._read_at = -FRESH_SECONDS
        self._pages: tuple[Page, ...] = ()

    def pages(self) -> tuple[Page, ...]:
        """Of each node that answers. Without an exporter it makes two calls only."""
        if time.monotonic() >= self._read_at + FRESH_SECONDS:
            exporters = _exporters(self._api)
            deadline = time.monotonic() + ROUND_SECONDS
            with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
                asked = pool.map(partial(_ask, self._api, deadline=deadline), exporters)
                self._pages = tuple(found for found in asked if found is not None)
            self._read_at = time.monotonic()
        return self._pages


def _exporters(api: Api) -> list[Object]:
    """One ready pod for each node. A tenant's pod with the same labels is none: it could tell anything of anybody."""
    labels = ",".join(health.EXPORTER_NAMES)
    found = [
        pod
        for key in health.EXPORTER_LABELS
        for pod in api.items("/api/v1/pods", labelSelector=f"{key} in ({labels})")
        if pod["spec"].get("nodeName") and health.is_ready(pod)
    ]
    spaces = {pod["metadata"]["namespace"] for pod in found}
    sites_own = {space for space in spaces if not _is_of_tenant(api, space)}
    return list(
        {pod["spec"]["nodeName"]: pod for pod in found if pod["metadata"]["namespace"] in sites_own}.values()
    )


def _is_of_tenant(api: Api, space: str) -> bool:
    if names.is_workspace_namespace(space):
        return True
    found = api.find(f"{names.NAMESPACES}/{space}")
    labels = (found or {}).get("metadata", {}).get("labels") or {}
    return found is None or names.WORKSPACE in labels or names.CLUSTER in labels


def _ask(api: Api, pod: Object, *, deadline: float) -> Page | None:
    """None if there is no answer: the node's last report then stays valid."""
    if time.monotonic() > deadline:
        return None
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{_port(pod)}/proxy/metrics"
    try:
        text = api.text(path, most=MOST_BYTES, seconds=ASK_SECONDS)
        return page_read(pod["spec"]["nodeName"], text, space=meta["namespace"])
    except Unauthorized:
        raise
    except (GpuaasError, ValueError):
        return None


def _port(pod: Object) -> int:
    ports = [port for each in pod["spec"]["containers"] for port in each.get("ports") or []]
    named = [port["containerPort"] for port in ports if port.get("name") == "metrics"]
    return int((named or [port["containerPort"] for port in ports] or [DEFAULT_PORT])[0])


def page_read(node: str, text: str, *, space: str = "") -> Page:
    """space: the namespace of the exporter. Raises ValueError for any other text than an exporter's page."""
    told = "\n".join(map(_once, text.split("\n")))
    try:
        samples = [each for family in text_string_to_metric_families(told) for each in family.samples]
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:  # the parser's, of what is no page
        raise ValueError(f"not a page of metrics: {error}") from error
    return Page(_node_health(node, samples), readings(node, samples, space=space))


def _once(line: str) -> str:
    """A line with each label once. An exporter may be told to add the labels of pods, which tenants choose and which may be called
    as its own: they come after those of the card, and before those that name the pod."""
    name, _, rest = line.partition("{")
    labels, _, value = rest.rpartition("}")
    told: list[tuple[str, str]] = LABEL.findall(labels)
    kept = dict(reversed(told)) | {key: word for key, word in told if key in OF_POD}
    if len(kept) == len(told):
        return line
    words = ",".join(f'{key}="{word}"' for key, word in kept.items())
    return f"{name}{{{words}}}{value}"


def _node_health(node: str, samples: Iterable[Sample]) -> NodeHealth:
    cards = _cards(samples)
    sick: dict[str, int] = {}
    words = []
    for uuid, card in sorted(cards.items()):
        for part, reasons in sorted(card.reasons.items()):
            words.append(f"{uuid}{f' slice {part}' if part else ''}: {', '.join(sorted(set(reasons)))}")
        if "" in card.reasons:
            sick[""] = sick.get("", 0) + 1
        hit = card.slices if "" in card.reasons else {key: card.slices[key] for key in card.reasons}
        for profile in hit.values():
            sick[profile] = sick.get(profile, 0) + 1
    return NodeHealth(node=node, cards=len(cards), sick=sick, check=_cards_check(len(cards), words))


def _cards_check(cards: int, words: list[str]) -> Check:
    if not cards:
        return CARDS.unknown("NoCards", "The DCGM exporter reports no card.", "Look at its log on this node.")
    if words:
        return CARDS.bad(
            "Errors",
            f"{some(words, 4)}.",
            "Sick devices are not sold any more. Drain the node, reset the GPU (nvidia-smi -r) or reboot, run the node check; "
            "if the error comes back, replace the card. The exporter remembers an XID until it restarts.",
        )
    return CARDS.good("Well", f"{cards} cards without errors.")


def _cards(samples: Iterable[Sample]) -> dict[str, Card]:
    cards: dict[str, Card] = {}
    for sample in samples:
        uuid = sample.labels.get("UUID", "")
        if not sample.name.startswith("DCGM_") or not uuid:
            continue
        card = cards.setdefault(uuid, Card())
        part = sample.labels.get("GPU_I_ID", "")
        if part:
            card.slices[part] = sample.labels.get("GPU_I_PROFILE", "")
        reason = _reason(sample.name, sample.value, sample.labels)
        if reason:
            card.reasons.setdefault(part, []).append(reason)
    return cards


def _reason(name: str, value: float, labels: Mapping[str, str]) -> str:
    """Why a card with this sample should take no work; "" if the sample shows no error."""
    if not value > 0:  # NaN too: the exporter has no reading
        return ""
    if name == "DCGM_FI_DEV_XID_ERRORS":
        return "" if value in XIDS_OF_PROGRAMS else f"XID {value:.0f}"
    if name == "DCGM_EXP_XID_ERRORS_COUNT":
        xid = labels.get("xid", "")
        return f"XID {xid}" if xid.isdigit() and int(xid) not in {0, *XIDS_OF_PROGRAMS} else ""
    return _SICK_ABOVE_ZERO.get(name, "")
