"""What the DCGM exporter says of cards: read through the real API server's proxy, from a page of its real format."""

import socket
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpuaas.core.conditions import Status
from gpuaas.providers.kubernetes import dcgm
from gpuaas.providers.kubernetes.client import Api
from tests.lab.fixtures import LabSite, until

HEAD = """# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
"""


def sample(name: str, value: float | str, uuid: str = "GPU-0", **labels: object) -> str:
    given = {"gpu": "0", "UUID": uuid, "device": "nvidia0", "modelName": "NVIDIA H100 80GB HBM3", **labels}
    text = ",".join(f'{key}="{label}"' for key, label in given.items())
    return f"{name}{{{text}}} {value}\n"


def page(*samples: str) -> str:
    return HEAD + "".join(sample("DCGM_FI_DEV_GPU_TEMP", 40, f"GPU-{n}") for n in range(4)) + "".join(samples)


def sick(*samples: str) -> dict[str, int]:
    return dict(dcgm.node_health("n1", page(*samples)).sick)


def test_cards_without_errors_are_well() -> None:
    found = dcgm.node_health("n1", page(sample("DCGM_FI_DEV_XID_ERRORS", 0)))
    assert (found.node, found.cards, dict(found.sick)) == ("n1", 4, {})
    assert found.check.status == Status.TRUE


@pytest.mark.parametrize(
    ("line", "is_sick"),
    [
        (sample("DCGM_FI_DEV_XID_ERRORS", 79), True),
        (sample("DCGM_FI_DEV_XID_ERRORS", 48), True),
        (sample("DCGM_FI_DEV_XID_ERRORS", 13), False),  # a program's own fault
        (sample("DCGM_FI_DEV_XID_ERRORS", 31), False),
        (sample("DCGM_FI_DEV_XID_ERRORS", 43), False),
        (sample("DCGM_FI_DEV_XID_ERRORS", "NaN"), False),
        (sample("DCGM_EXP_XID_ERRORS_COUNT", 2, xid="79", window_size_in_ms="300000"), True),
        (sample("DCGM_EXP_XID_ERRORS_COUNT", 2, xid="31", window_size_in_ms="300000"), False),
        (sample("DCGM_EXP_XID_ERRORS_COUNT", 0, xid="79", window_size_in_ms="300000"), False),
        (sample("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1), True),
        (sample("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0), False),
        (sample("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 7), False),  # corrected
        (sample("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 7), False),  # of its whole life
        (sample("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1), True),
        (sample("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0), False),
        ("some_other_metric 79\n", False),
    ],
)
def test_what_makes_a_card_sick(line: str, is_sick: bool) -> None:
    assert sick(line) == ({"": 1} if is_sick else {})


def test_two_reasons_are_one_card_and_two_cards_are_two() -> None:
    xid, ecc = sample("DCGM_FI_DEV_XID_ERRORS", 79), sample("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 3)
    assert sick(xid, ecc) == {"": 1}
    assert sick(xid, sample("DCGM_FI_DEV_XID_ERRORS", 79, "GPU-1")) == {"": 2}
    message = dcgm.node_health("n1", page(xid, ecc)).check.message
    assert "GPU-0" in message
    assert "XID 79" in message
    assert "double-bit" in message


def slices(*profiles: str) -> list[str]:
    return [
        sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, GPU_I_PROFILE=profile, GPU_I_ID=number)
        for number, profile in enumerate(profiles)
    ]


def test_a_slice_is_sick_by_itself_and_a_sick_card_with_all_its_slices() -> None:
    cut = slices("3g.40gb", "1g.10gb", "1g.10gb")
    one = sample("DCGM_FI_DEV_XID_ERRORS", 94, GPU_I_PROFILE="1g.10gb", GPU_I_ID=1)
    assert sick(*cut, one) == {"1g.10gb": 1}
    assert sick(*cut, sample("DCGM_FI_DEV_XID_ERRORS", 79)) == {"": 1, "3g.40gb": 1, "1g.10gb": 2}
    assert sick(*cut, one, sample("DCGM_FI_DEV_XID_ERRORS", 79)) == {"": 1, "3g.40gb": 1, "1g.10gb": 2}


def test_a_page_without_cards_is_not_known() -> None:
    assert dcgm.node_health("n1", HEAD).check.status == Status.UNKNOWN


@pytest.mark.parametrize("text", ["<html>not found</html>", 'DCGM_X{UUID="a" 1', "\x00\x01"])
def test_what_is_no_such_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        dcgm.node_health("n1", text)


# -- through the API server ------------------------------------------------------------------------------------------


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
def space(lab: LabSite) -> Iterator[str]:
    name = f"monitoring-{uuid.uuid4().hex[:8]}"
    api = lab.api()
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


@pytest.mark.lab
def test_an_exporter_is_asked_through_the_api_server(lab: LabSite, exporter: Exporter, space: str) -> None:
    exporter.text = page(sample("DCGM_FI_DEV_XID_ERRORS", 79, "GPU-2"))
    put(lab.api(), space, "h100-2", address=own_address(), port=exporter.port)
    found = {each.node: each for each in lab.driver().device_health()}
    assert exporter.asked == 1
    assert dict(found["h100-2"].sick) == {"": 1}
    assert "GPU-2" in found["h100-2"].check.message
    node = next(each for each in lab.driver().probe().nodes if each.name == "h100-2")
    metrics = next(check for check in node.checks if check.type == "GpuMetrics")
    assert metrics.status == Status.TRUE


@pytest.mark.lab
def test_one_that_does_not_answer_is_left_out_and_holds_up_nobody(
    lab: LabSite, exporter: Exporter, space: str
) -> None:
    put(lab.api(), space, "h100-2", address=own_address(), port=exporter.port)
    put(lab.api(), space, "h100-1", address=own_address(), port=9)
    exporter_nodes = {each.node for each in lab.driver().device_health()}
    assert "h100-2" in exporter_nodes
    assert "h100-1" not in exporter_nodes


@pytest.mark.lab
def test_a_page_that_is_no_page_is_left_out(lab: LabSite, exporter: Exporter, space: str) -> None:
    exporter.text = "<html>"
    put(lab.api(), space, "h100-2", address=own_address(), port=exporter.port)
    assert "h100-2" not in {each.node for each in lab.driver().device_health()}
    assert exporter.asked == 1
