"""Every alert reads metrics that exist and has its page; promtool itself is not needed to see that."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from prometheus_client import REGISTRY

from gpuaas.core import clock
from gpuaas.providers.measured import CALLS
from gpuaas.system.gauges import PARTS

ROOT = Path(__file__).resolve().parents[2]
RULES = yaml.safe_load((ROOT / "deploy/helm/gpuaas/files/alerts.yaml").read_text("utf-8"))
ALERTS: dict[str, dict[str, Any]] = {row["alert"]: row for group in RULES["groups"] for row in group["rules"]}
PAGE = ROOT / "docs/operators/alerts.md"


@pytest.mark.django_db
def test_alerts_read_metrics_that_exist(client: Client) -> None:
    client.get("/health/live")  # the first request has what counts requests made
    gauges = {family.name for part in PARTS for family in part(clock.now())}
    histograms = {f"{family.name}_bucket" for family in REGISTRY.collect() if family.type == "histogram"}
    counters = {f"{family.name}_total" for family in REGISTRY.collect() if family.type == "counter"}
    assert f"{CALLS._name}_bucket" in histograms
    for name, rule in ALERTS.items():
        read = set(re.findall(r"\b(?:gpuaas|django)_[a-z_]+", rule["expr"]))
        assert read, name
        assert read <= gauges | histograms | counters, name


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_leads_to_its_page(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook"] == f"docs/operators/alerts.md#{name.lower()}"


def test_the_page_has_each_alert_once_in_their_order() -> None:
    assert re.findall(r"^## (\w+)$", PAGE.read_text("utf-8"), re.MULTILINE) == list(ALERTS)
