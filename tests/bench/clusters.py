"""The portal's own part of an order of a cluster: until it is accepted, and from a step's end at the site to the browser.

On the whole portal as `make demo` starts it, in a folder of its own: web, worker and live channel are processes, the site is
simulated and takes no time of theirs.
"""

import statistics
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright

from deploy.testing import browser as chromium_path
from tests.bench.table import Measured
from tests.e2e.portal import Client, Portal, wait_until

CLUSTERS = 12  # one after the other: each is taken away before the next
HOME = "/projects/weather-lm/clusters"
SHAPE = {"pools": {"gpu": {"count": 1}}}
# when, by the browser's clock in ms, how many steps were first shown as done
WATCH = """() => {
  window.seen = [];
  const look = () => {
    const done = document.querySelectorAll('#cluster-live .g-fall__step[data-state="done"]').length;
    while (window.seen.length < done) window.seen.push(Date.now());
  };
  look();
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""


def measure() -> list[Measured]:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        portal = Portal.start(Path(folder) / "clusters")
        try:
            client = Client(portal, "alice")
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
            page = browser.new_page()
            _sign_in(page, portal)
            return _measured(client, page, portal)
        finally:
            portal.stop()


def _measured(client: Client, page: Page, portal: Portal) -> list[Measured]:
    accepted, shown, fetched, floor = [], [], [], []
    for number in range(CLUSTERS + 1):  # the first pays for what processes do once
        seconds, made = _timed(partial(_order, client, f"bench-{number}"))
        floor.append(_timed(partial(client.get, "/projects/weather-lm"))[0])
        accepted.append(seconds)
        page.goto(f"{portal.url}/p/weather-lm/clusters/{made['id']}/")
        page.evaluate(WATCH)
        opened = time.time()
        _in_state(client, made["id"], "ready")
        shown += _delays(client, page, made["id"], opened)
        fetched.append(_timed(partial(client.get, f"{HOME}/{made['id']}"))[0])
        assert client.call("DELETE", f"{HOME}/{made['id']}").status == 202
        _in_state(client, made["id"], "deleted")
    ours, asked = _p95(accepted[1:]), _p95(floor[1:])
    late, fetch = _p95(shown), _p95(fetched[1:])
    note = f"median {statistics.median(accepted[1:]) * 1000:.0f} ms of {CLUSTERS}; promised 300 ms"
    told = f"median {statistics.median(shown) * 1000:.0f} ms of {len(shown)} steps; promised 500 ms"
    return [
        Measured(
            "order of a cluster accepted, p95",
            "ms",
            ours * 1000,
            asked * 1000,
            "GET of a project",
            False,
            note,
        ),
        Measured(
            "step's end → browser, p95", "ms", late * 1000, fetch * 1000, "GET of the cluster", False, told
        ),
    ]


def _order(client: Client, name: str) -> Any:
    answer = client.call("POST", HOME, {"template": "kubernetes", "name": name, "document": SHAPE})
    assert answer.status in {201, 202}, answer.body
    return answer.json


def _delays(client: Client, page: Page, key: str, opened: float) -> list[float]:
    """Seconds from the end of each step that ended while the page was watched to the moment in which it was shown."""
    (operation,) = client.get(f"{HOME}/{key}/operations")["results"]
    ends = sorted(datetime.fromisoformat(step["finished_at"]).timestamp() for step in operation["steps"])
    wait_until("all steps on the page", lambda: len(page.evaluate("window.seen")) == len(ends))
    seen = [moment / 1000 for moment in page.evaluate("window.seen")]
    return [when - end for end, when in zip(ends, seen, strict=True) if end > opened]


def _in_state(client: Client, key: str, state: str) -> None:
    wait_until(f"the cluster to be {state}", lambda: client.get(f"{HOME}/{key}")["state"] == state)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    done = work()
    return time.perf_counter() - began, done


def _p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


def _sign_in(page: Page, portal: Portal) -> None:
    page.goto(portal.url)
    page.get_by_label("Name or e-mail").fill("alice")
    page.get_by_label("Password").fill("demo")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state("networkidle")
