"""From a change at a site to the page that shows it: pods of the lab come and go while the whole portal runs and a browser looks.

The floor is a watch of the same pods in this process, and then the browser's fetch of the same page: what is left when nothing is
counted, kept or told in between.
"""

import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from deploy.testing import browser
from gpuaas.providers.kubeapi.client import Api
from tests.bench.ready import lab_kubeconfig
from tests.bench.table import Measured
from tests.e2e.portal import Client, Portal
from tests.e2e.tenant import Tenant

PODS = 20
PROMISE_MS = 500.0
FLAVOR = "h100-sxm-80gb.1.lab"
EXPECT = """([name, there]) => {
  window.shown = new Promise((done, failed) => {
    const look = () => {
      const pods = document.querySelector("[aria-labelledby=pods-title]");
      if (pods === null || pods.textContent.includes(name) !== there) return;
      observer.disconnect();
      requestAnimationFrame(() => done(Date.now()));
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, { childList: true, subtree: true });
    setTimeout(() => failed(new Error(`waited a minute for ${name}`)), 60_000);
  });
}"""
FETCH = """async () => {
  const began = performance.now();
  await (await fetch(location.href)).text();
  return performance.now() - began;
}"""


def measure() -> list[Measured]:
    chromium = browser() or sys.exit("Chromium is missing; `make test` says how to get it")
    kubeconfig = lab_kubeconfig()
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "lab.yaml").write_text(kubeconfig)
        portal = Portal.start(folder / "seen")
        window = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            portal.run("-m", "deploy.demo", "lab", GPUAAS_LAB_KUBECONFIG=str(folder / "lab.yaml"))
            page = window.new_page()
            _sign_in(page, portal)
            return _measured(Tenant(Client(portal, "alice"), folder), Api(kubeconfig), page, portal.url)
        finally:
            window.close()
            portal.stop()


def _sign_in(page: Page, portal: Portal) -> None:
    page.goto(f"{portal.url}/accounts/login/")
    page.get_by_label("Name or e-mail").fill("alice")
    page.get_by_label("Password").fill("demo")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Switch theme").wait_for()


def _measured(alice: Tenant, api: Api, page: Page, url: str) -> list[Measured]:
    made = alice.request(FLAVOR, 2, name="seen")
    alice.in_state(made["id"], "ready")
    space = f"/api/v1/namespaces/{made['external_name']}/pods"
    watch = _Watch(api, space)
    page.goto(f"{url}/p/weather-lm/workspaces/{made['id']}/")
    page.locator('[data-live-state="on"]').first.wait_for()
    seen, least = [], []
    pause = random.Random(1)  # of the same lengths in each run, and in no step with what waits for its turn

    def change(name: str, *, there: bool, make: Callable[[], object]) -> None:
        time.sleep(pause.uniform(1.5, 2.5))
        page.evaluate(EXPECT, [name, there])
        began = time.time()
        make()
        seen.append(page.evaluate("() => window.shown") - began * 1000)
        least.append((watch.moment(name, there=there) - began) * 1000 + page.evaluate(FETCH))

    for number in range(PODS):
        name = f"seen-{number:02}"
        change(name, there=True, make=partial(api.create, space, _pod(name)))
        change(name, there=False, make=partial(api.delete, f"{space}/{name}", gracePeriodSeconds="0"))
    alice.delete(made["id"])
    alice.in_state(made["id"], "deleted")
    return _rows(seen, least)


def _rows(seen: list[float], least: list[float]) -> list[Measured]:
    what = "change at a site → seen in the browser"
    p95 = statistics.quantiles(seen, n=20)[18]
    note = f"{len(seen)} changes one by one; the slowest took {max(seen):.0f} ms"
    middle, floor = statistics.median(seen), statistics.median(least)
    raw = "a raw watch, and the page fetched"
    return [
        Measured(f"{what}, p95", "ms", p95, PROMISE_MS, "the promise", higher_is_better=False, note=note),
        Measured(f"{what}, median", "ms", middle, floor, raw, higher_is_better=False),
    ]


def _pod(name: str) -> dict[str, object]:
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}}


class _Watch:
    """When this process heard of each pod for the first time, and that it is gone."""

    def __init__(self, api: Api, path: str) -> None:
        self._heard: dict[tuple[str, bool], float] = {}
        self._changed = threading.Condition()
        version = api.get(path)["metadata"]["resourceVersion"]
        threading.Thread(target=self._read, args=(api, path, version), daemon=True).start()

    def _read(self, api: Api, path: str, version: str) -> None:
        for event in api.watch(path, version=version, seconds=600):
            moment = time.time()
            key = (event["object"]["metadata"].get("name", ""), event["type"] != "DELETED")
            with self._changed:
                self._heard.setdefault(key, moment)
                self._changed.notify_all()

    def moment(self, name: str, *, there: bool) -> float:
        with self._changed:
            heard = self._changed.wait_for(lambda: (name, there) in self._heard, 60)
        assert heard, f"the watch did not tell of {name}"
        return self._heard[name, there]
