"""Logs of containers whose lines are long: what is read is their end, where the error is."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
import yaml

from gpuaas.providers.base import Connection
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.environments import KubernetesEnvironments
from gpuaas.providers.kubernetes.inside import LOG_BYTES
from gpuaas.providers.kubernetes.jobs import KubernetesJobs
from tests.providers.kubernetes import test_environments, test_jobs
from tests.served import served

LINES = [f"{number:04} {'ä' * 400}\n" for number in range(1000)]
META = {"name": "one", "namespace": "ns", "uid": "u-1", "creationTimestamp": "2026-11-30T10:00:00Z"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "uid": "u-1", "controller": True}


class Site(BaseHTTPRequestHandler):
    """As much of an API server as a log needs."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path.endswith("/log"):
            answer = "".join(LINES[-int(parse_qs(asked.query)["tailLines"][0]) :])
        elif asked.path.endswith("/pods"):
            answer = json.dumps(
                {"metadata": {}, "items": [{"metadata": {**META, "ownerReferences": [OWNER]}}]}
            )
        else:
            answer = json.dumps({"metadata": {**META, "labels": {names.JOB: str(test_jobs.SPEC.id)}}})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: Any) -> None:
        """Tests are silent."""


@pytest.fixture
def api() -> Iterator[Api]:
    with served(Site) as address:
        found = {
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        yield Api(yaml.safe_dump(found))


def test_the_end_of_a_long_log_is_read(api: Api) -> None:
    connection = Connection(uuid4(), "site", "", credentials={})
    jobs = KubernetesJobs(connection, api, chooses_users=True)
    environments = KubernetesEnvironments(connection, api, chooses_users=True)
    for text in (
        jobs.log(test_jobs.SPEC, lines=1000),
        environments.log(test_environments.SPEC, lines=1000),
    ):
        assert text.endswith(LINES[-1])
        assert LOG_BYTES - 10 < len(text.encode()) < LOG_BYTES + 10
    assert jobs.log(test_jobs.SPEC, lines=2) == "".join(LINES[-2:])
