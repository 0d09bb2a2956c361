"""Prometheus' own promtool on the alert rules and on what the portal exports: each alert fires when it should, and not before."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from deploy.lab.prometheus import program
from tenants.models import User
from tests.system.scene import TOKEN, full_swing

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy/helm/gpuaas/files/alerts.yaml"
EVERY = 30  # seconds between two samples, and between two looks at the rules
GONE = "stale"
pytestmark = pytest.mark.skipif(program("promtool") is None, reason="promtool is not on this machine")


@dataclass(frozen=True)
class Case:
    """What is well, and from the second sample on what is not; the alert fires `after` seconds of that. A text is a whole
    series in promtool's notation."""

    well: dict[str, float | str]
    sick: dict[str, float | str]
    after: int
    labels: dict[str, str] = field(default_factory=dict)
    summary: str = ""


FAILED, DONE = (
    f'gpuaas_operations_last_hour{{holder="workspace",site="b",operation="create",outcome="{word}"}}'
    for word in ("failed", "succeeded")
)
SOLD, HELD = (f'gpuaas_capacity_{word}{{site="b",resource="gpu:h100"}}' for word in ("sellable", "reserved"))
STUCK = 'gpuaas_operations_oldest_open_seconds{holder="cluster",site="b",operation="resize"}'
UP_TO_10, UP_TO_20, CALLS = (
    f'gpuaas_site_call_seconds_bucket{{site="b",le="{le}"}}' for le in ("10", "20", "+Inf")
)
ANSWERED, ERRORS = (
    f'django_http_responses_total_by_status_view_method_total{{status="{status}",view="v",method="GET"}}'
    for status in (200, 503)
)
IN_1, IN_5, ASKED = (
    f'django_http_requests_latency_seconds_by_view_method_bucket{{view="v",method="GET",le="{le}"}}'
    for le in ("1", "5", "+Inf")
)
COUNTS, RESTS = "0+9x300", "0x300"
OF_SITE = {"site": "b"}
CASES = {
    "GpuaasProcessMissing": Case(
        {'gpuaas_processes{kind="worker"}': 1},
        {'gpuaas_processes{kind="worker"}': 0},
        60,
        {"kind": "worker"},
        "No worker process of the portal is running.",
    ),
    "GpuaasStateUnknown": Case(
        {'gpuaas_processes{kind="worker"}': 1},
        {'gpuaas_processes{kind="worker"}': GONE},
        300,
        {},
        "The portal does not report its state.",
    ),
    "GpuaasRequestsFail": Case(
        {ANSWERED: "0+99x300", ERRORS: "0+1x300"},
        {ANSWERED: "0+99x300", ERRORS: "0+9x300"},
        300,
        {},
        "8.333% of the requests to the portal end with an error of the server.",
    ),
    "GpuaasRequestsSlow": Case(
        {IN_1: COUNTS, IN_5: COUNTS, ASKED: COUNTS},
        {IN_1: RESTS, IN_5: COUNTS, ASKED: COUNTS},
        600,
        {},
        "A twentieth of the requests to the portal take 4.8s or longer.",
    ),
    "GpuaasClocksApart": Case(
        {'gpuaas_clock_skew_seconds{kind="meter"}': 1},
        {'gpuaas_clock_skew_seconds{kind="meter"}': 1.5},
        60,
        {"kind": "meter"},
        "The clock of a meter process differs from the database's by 1.5s.",
    ),
    "GpuaasWorkWaits": Case(
        {'gpuaas_work_oldest_due_seconds{kind="site"}': 60},
        {'gpuaas_work_oldest_due_seconds{kind="site"}': 61},
        120,
        {"kind": "site"},
        "Background work (site) has waited 1m 1s for a worker.",
    ),
    "GpuaasClaimOld": Case(
        {"gpuaas_claim_oldest_seconds": 600},
        {"gpuaas_claim_oldest_seconds": 601},
        60,
        {},
        "A process has worked on one row for 10m 1s.",
    ),
    "GpuaasOperationStuck": Case(
        {STUCK: 1800},
        {STUCK: 1801},
        0,
        {"holder": "cluster", "operation": "resize", **OF_SITE},
        "resize of a cluster at b is open for 30m 1s.",
    ),
    "GpuaasNotEnded": Case(
        {'gpuaas_not_ended{holder="workspace",site="b"}': 0},
        {'gpuaas_not_ended{holder="workspace",site="b"}': 2},
        900,
        {"holder": "workspace", **OF_SITE},
        "2 workspaces at b were to be suspended or deleted and still run.",
    ),
    "GpuaasOperationsFail": Case(
        {FAILED: 2, DONE: 0},
        {FAILED: 3, DONE: 11},
        300,
        {"holder": "workspace", **OF_SITE},
        "More than a fifth of the operations on workspaces at b failed within the last hour.",
    ),
    "GpuaasSiteDown": Case(
        {'gpuaas_site_reachable{site="b"}': 1},
        {'gpuaas_site_reachable{site="b"}': 0},
        300,
        OF_SITE,
        "The site b does not answer.",
    ),
    "GpuaasSiteRefuses": Case(
        {'gpuaas_site_credentials_valid{site="b"}': 1},
        {'gpuaas_site_credentials_valid{site="b"}': 0},
        300,
        OF_SITE,
        "The site b refuses the portal's credentials.",
    ),
    "GpuaasSiteSlow": Case(
        {UP_TO_10: COUNTS, UP_TO_20: COUNTS, CALLS: COUNTS},
        {UP_TO_10: RESTS, UP_TO_20: COUNTS, CALLS: COUNTS},
        600,
        OF_SITE,
        "A twentieth of the calls to the site b take 19.5s or longer.",
    ),
    "GpuaasSiteUnfit": Case(
        {'gpuaas_site_fit{site="b"}': 1},
        {'gpuaas_site_fit{site="b"}': 0},
        900,
        OF_SITE,
        "A check blocks sales at the site b.",
    ),
    "GpuaasMeterLate": Case(
        {'gpuaas_meter_lag_seconds{site="b"}': 150},
        {'gpuaas_meter_lag_seconds{site="b"}': 151},
        120,
        OF_SITE,
        "The meter has not heard from b for 2m 31s.",
    ),
    "GpuaasUsageUnsold": Case(
        {'gpuaas_usage_unsold_intervals{site="b"}': 0},
        {'gpuaas_usage_unsold_intervals{site="b"}': 4},
        3600,
        OF_SITE,
        "4 running consumers at b use GPUs that no flavor sells.",
    ),
    "GpuaasUsageUnpriced": Case(
        {'gpuaas_usage_unpriced_gpus{meter="gpu_held"}': 0},
        {'gpuaas_usage_unpriced_gpus{meter="gpu_held"}': 8},
        3600,
        {"meter": "gpu_held"},
        "8 GPUs are metered (gpu_held) and have no price.",
    ),
    "GpuaasDriftOpen": Case(
        {'gpuaas_drift_open{site="b"}': 0},
        {'gpuaas_drift_open{site="b"}': 2},
        3600,
        OF_SITE,
        "2 workspaces at b differ from what they should be.",
    ),
    "GpuaasSoldOut": Case(
        {SOLD: 8, HELD: 7},
        {SOLD: 8, HELD: 8},
        3600,
        {"resource": "gpu:h100", **OF_SITE},
        "gpu:h100 is sold out at b.",
    ),
    "GpuaasBackupOld": Case(
        {"gpuaas_backup_last_timestamp_seconds": 0},
        {"gpuaas_backup_last_timestamp_seconds": -26 * 3600},
        900,
        {},
        "The newest backup of the portal is more than a day old.",
    ),
}


def severities() -> dict[str, str]:
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    return {rule["alert"]: rule["labels"]["severity"] for rule in rules}


def looks(alert: str, case: Case) -> Iterator[dict[str, Any]]:
    """Just before it has to fire, then, and hours later."""
    begins = EVERY + case.after
    fires = {
        "exp_labels": {"severity": severities()[alert], **case.labels},
        "exp_annotations": {
            "summary": case.summary,
            "runbook": f"docs/operators/alerts.md#{alert.lower()}",
        },
    }
    yield {"eval_time": f"{begins - EVERY}s", "alertname": alert, "exp_alerts": []}
    yield {"eval_time": f"{begins}s", "alertname": alert, "exp_alerts": [fires]}
    yield {"eval_time": "2h", "alertname": alert, "exp_alerts": [fires]}


def samples(well: float | str, sick: float | str) -> str:
    if sick == GONE:
        return f"{well} {GONE} _x300"
    return sick if isinstance(sick, str) else f"{well} {sick}x300"


def unit_tests(alert: str, case: Case) -> dict[str, Any]:
    """As promtool reads them: JSON is YAML."""
    broken = [{"series": name, "values": samples(well, case.sick[name])} for name, well in case.well.items()]
    sound = [
        {"series": name, "values": well if isinstance(well, str) else f"{well}x300"}
        for name, well in case.well.items()
    ]
    never: list[dict[str, Any]] = [
        {"eval_time": at, "alertname": alert, "exp_alerts": []} for at in ("1m", "10m", "2h")
    ]
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{EVERY}s",
        "tests": [
            {"interval": f"{EVERY}s", "input_series": broken, "alert_rule_test": list(looks(alert, case))},
            {"interval": f"{EVERY}s", "input_series": sound, "alert_rule_test": never},
        ],
    }


def promtool(*words: str, given: str = "") -> str:
    done = subprocess.run(
        [str(program("promtool")), *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_rule_is_sound_and_has_its_case() -> None:
    promtool("check", "rules", str(RULES))
    assert set(CASES) == set(severities())


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should_and_not_before(tmp_path: Path, alert: str) -> None:
    path = tmp_path / "tests.yaml"
    path.write_text(json.dumps(unit_tests(alert, CASES[alert])), "utf-8")
    promtool("test", "rules", str(path))


@pytest.mark.django_db
def test_what_the_portal_exports_is_named_as_prometheus_wants_it(
    client: Client, settings: Any, olga: User
) -> None:
    settings.METRICS_TOKEN = TOKEN
    full_swing(olga)
    answer = client.get("/metrics/portal", headers={"Authorization": f"Bearer {TOKEN}"})
    assert promtool("check", "metrics", given=answer.content.decode()) == ""
