"""A long list beside a short one: it takes as many statements, and by the API as many as tests/api/query_counts.json says."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.bench.lists import median_ms
from tests.bench.table import Measured

BASELINE = Path(__file__).resolve().parents[1] / "api" / "query_counts.json"
FEW = 50  # rows that both lists show at once, or more


@dataclass(frozen=True)
class Listed:
    """rows: what they are. few, many: the slugs of two projects, with FEW of them and with `count`."""

    rows: str
    count: int
    few: str
    many: str

    def measured(self, client: Client) -> list[Measured]:
        ways = {"API": f"/api/v1/projects/{{}}/{self.rows}", "page": f"/p/{{}}/{self.rows}/"}
        return [self._one(client, f"list of {self.rows}, {way}", url) for way, url in ways.items()]

    def _one(self, client: Client, what: str, url: str) -> Measured:
        few, many = url.format(self.few), url.format(self.many)
        found = statements(client, few), statements(client, many)
        allowed = json.loads(BASELINE.read_text())[self.rows] if url.startswith("/api/") else found[0]
        if set(found) != {allowed}:
            raise SystemExit(f"{what}: {found} statements at {FEW} and {self.count}, {allowed} allowed")
        ours, floor = (median_ms(partial(client.get, each)) for each in (many, few))
        note = f"{allowed} statements at both"
        return Measured(
            f"{what}, {self.count:,} rows", "ms", ours, floor, f"at {FEW}", higher_is_better=False, note=note
        )


def statements(client: Client, url: str) -> int:
    client.get(url)  # what Django caches at first use
    with CaptureQueriesContext(connection) as found:
        answer = client.get(url)
    if answer.status_code != 200:
        raise SystemExit(f"{url}: {answer.status_code}")
    return len(found)
