"""The DCGM exporter is asked through the real API server's proxy: a server of its format stands where its pod would be."""

import socket
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpuaas.core.conditions import Status
from gpuaas.providers.kubeapi.client import Api
from tests.lab.fixtures import until
from tests.providers.kubernetes.fitness.conftest import PortalSite
from tests.providers.kubernetes.test_dcgm import page, sample

pytestmark = pytest.mark.lab


class Exporter:
    """Stands where the exporter's pod would listen; counts who asks."""

    def __init__(self, address: str) -> None:
        self.text, self.asked = page(), 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                body = outer.text.encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def own_address() -> str:
    """One of this machine that is not loopback, which the API server's proxy refuses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback; the API server's proxy refuses that")
        return str(probe.getsockname()[0])


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter(own_address())
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def space(portal: PortalSite) -> Iterator[str]:
    name = f"monitoring-{uuid.uuid4().hex[:8]}"
    api = portal.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    until(lambda: api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the account")
    yield name
    api.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
    api.delete(f"/api/v1/namespaces/{name}")


def put(api: Api, space: str, node: str, *, address: str, port: int) -> None:
    """A pod of the exporter on that node whose address is this machine's."""
    path = f"/api/v1/namespaces/{space}/pods"
    ports = [{"name": "metrics", "containerPort": port}]
    api.create(
        path,
        {
            "metadata": {"name": f"dcgm-{node}", "labels": {"app": "nvidia-dcgm-exporter"}},
            "spec": {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "dcgm-exporter", "image": "dcgm-exporter", "ports": ports}],
            },
        },
    )
    until(lambda: api.get(f"{path}/dcgm-{node}")["status"].get("phase") == "Running", "the exporter runs")
    api.merge(f"{path}/dcgm-{node}/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}})


def test_an_exporter_is_asked_through_the_api_server(
    portal: PortalSite, exporter: Exporter, space: str
) -> None:
    exporter.text = page(sample("DCGM_FI_DEV_XID_ERRORS", 79, "GPU-2"))
    put(portal.api(), space, "h100-2", address=own_address(), port=exporter.port)
    found = {each.node: each for each in portal.driver().device_health()}
    assert exporter.asked == 1
    assert dict(found["h100-2"].sick) == {"": 1}
    assert "GPU-2" in found["h100-2"].check.message
    node = next(each for each in portal.driver().probe().nodes if each.name == "h100-2")
    metrics = next(check for check in node.checks if check.type == "GpuMetrics")
    assert metrics.status == Status.TRUE


def test_one_that_does_not_answer_is_left_out_and_holds_up_nobody(
    portal: PortalSite, exporter: Exporter, space: str
) -> None:
    put(portal.api(), space, "h100-2", address=own_address(), port=exporter.port)
    put(portal.api(), space, "h100-1", address=own_address(), port=9)
    exporter_nodes = {each.node for each in portal.driver().device_health()}
    assert "h100-2" in exporter_nodes
    assert "h100-1" not in exporter_nodes


def test_a_page_that_is_no_page_is_left_out(portal: PortalSite, exporter: Exporter, space: str) -> None:
    exporter.text = "<html>"
    put(portal.api(), space, "h100-2", address=own_address(), port=exporter.port)
    assert "h100-2" not in {each.node for each in portal.driver().device_health()}
    assert exporter.asked == 1


def test_one_request_tells_what_cards_do_and_how_they_are(
    portal: PortalSite, exporter: Exporter, space: str
) -> None:
    pod = {"namespace": "gpu-01234567-train", "pod": "train-0", "container": "main"}
    exporter.text = page(sample("DCGM_FI_DEV_GPU_UTIL", 87, "GPU-2", **pod))
    put(portal.api(), space, "h100-2", address=own_address(), port=exporter.port)
    driver = portal.driver()
    assert [each.cards for each in driver.device_health() if each.node == "h100-2"] == [4]
    (found,) = [each for each in driver.device_metrics() if each.pod]
    assert (found.node, found.device, found.namespace, found.pod) == (
        "h100-2",
        "GPU-2",
        pod["namespace"],
        "train-0",
    )
    assert found.utilization == 87
    assert exporter.asked == 1


def test_a_pod_of_a_tenant_that_calls_itself_the_exporter_is_not_asked(
    portal: PortalSite, exporter: Exporter, space: str
) -> None:
    """It could take other people's cards off sale, and tell anything of anybody's use."""
    put(portal.api(), space, "h100-2", address=own_address(), port=exporter.port)
    labels = {"gpuaas.io/workspace": str(uuid.uuid4())}
    portal.api().merge(f"/api/v1/namespaces/{space}", {"metadata": {"labels": labels}})
    assert "h100-2" not in {each.node for each in portal.driver().device_health()}
    assert exporter.asked == 0
