"""From an order that a warm pool serves to the cluster that is ready, beside the same order that is built, on the whole portal."""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.table import Measured
from tests.e2e.portal import Client, Portal, wait_until

CLAIMS = 4
HOME = "/projects/weather-lm/clusters"
POOLS = "/platform/cluster-templates/kubernetes/warm-pools"


def measure() -> list[Measured]:
    with TemporaryDirectory() as folder:
        portal = Portal.start(Path(folder) / "claims")
        try:
            return _measured(Client(portal, "olga"), Client(portal, "alice"))
        finally:
            portal.stop()


def _measured(olga: Client, alice: Client) -> list[Measured]:
    choice: dict[str, Any] = {"pools": {"gpu": {"count": 1}}}
    built = [_ready_after(alice, f"built-{number}", choice) for number in range(CLAIMS)]
    asked = {"name": "bench", "project": "protein-fold", "document": choice, "wanted": 1}
    made = olga.call("POST", POOLS, asked)
    assert made.status == 201, made.body
    claimed = []
    for number in range(CLAIMS):
        wait_until("one waits", lambda: olga.get(f"{POOLS}/{made.json['id']}")["ready"], seconds=120)
        claimed.append(_ready_after(alice, f"claimed-{number}", choice))
    assert olga.get(f"{POOLS}/{made.json['id']}")["claimed"] == CLAIMS
    ours, floor = statistics.median(claimed), statistics.median(built)
    note = f"slowest of {CLAIMS}: {max(claimed) * 1000:.0f} ms"
    return [
        Measured(
            "claim of a warm cluster → ready",
            "ms",
            ours * 1000,
            floor * 1000,
            "the same, built",
            note=note,
            higher_is_better=False,
        )
    ]


def _ready_after(client: Client, name: str, choice: dict[str, Any]) -> float:
    """Seconds from the order until the API says that it is ready; then it is taken away."""
    began = time.perf_counter()
    answer = client.call("POST", HOME, {"template": "kubernetes", "name": name, "document": choice})
    assert answer.status in {201, 202}, answer.body
    address = f"{HOME}/{answer.json['id']}"
    wait_until(f"{name} is ready", lambda: client.get(address)["state"] == "ready")
    seconds = time.perf_counter() - began
    assert client.call("DELETE", address).status == 202
    wait_until(f"{name} is deleted", lambda: client.get(address)["state"] == "deleted")
    return seconds
