"""What Envoy is told, without an Envoy."""

import json
from pathlib import Path
from typing import Any

from gpuaas.environments.door.desk import is_own
from gpuaas.environments.door.envoy import OWN, Place, Route

PLACE = Place(Path("/run/door"), "127.0.0.1", 8443, "apps.example.org:8443")
ONE, TWO = "1" * 32, "2" * 32


def listener(*routes: Route) -> Any:
    return PLACE.listeners(routes)["resources"][0]


def manager(chain: Any) -> Any:
    return chain["filters"][0]["typed_config"]


def route(label: str, generation: int = 0) -> Route:
    return Route(label, PLACE.folder / label, generation)


def test_a_host_has_a_chain_and_a_cluster_of_its_own() -> None:
    found = listener(route(ONE), route(TWO))
    chains = {
        chain["filter_chain_match"]["server_names"][0]: manager(chain) for chain in found["filter_chains"]
    }
    assert list(chains) == [f"{ONE}.apps.example.org", f"{TWO}.apps.example.org"]
    for host, one in chains.items():
        (served,) = one["route_config"]["virtual_hosts"]
        assert served["domains"] == [host, f"{host}:*"]
        assert served["response_headers_to_remove"] == ["service-worker-allowed", "clear-site-data"]
        own, onward = served["routes"]
        assert (own["match"], own["route"]["cluster"]) == ({"prefix": f"{OWN}/"}, "portal")
        assert onward["route"]["cluster"] == host.partition(".")[0]
    clusters = PLACE.clusters([route(ONE), route(TWO)])["resources"]
    assert [cluster["name"] for cluster in clusters] == [ONE, TWO]
    assert f"/run/door/{ONE}" in json.dumps(clusters[0])


def test_every_request_but_the_doors_own_is_asked_about_and_refused_without_an_answer() -> None:
    for chain in listener(route(ONE))["filter_chains"]:
        asks, goes = manager(chain)["http_filters"]
        assert asks["typed_config"]["failure_mode_allow"] is False
        assert goes["name"] == "envoy.filters.http.router"
        exempt = [
            row["match"]["prefix"]
            for host in manager(chain)["route_config"]["virtual_hosts"]
            for row in host["routes"]
            if "typed_per_filter_config" in row
        ]
        assert exempt == [f"{OWN}/"]


def test_a_host_without_a_chain_is_answered_by_the_door_alone() -> None:
    (nowhere,) = manager(listener()["default_filter_chain"])["route_config"]["virtual_hosts"]
    assert [row["route"]["cluster"] for row in nowhere["routes"]] == ["portal"]


def test_a_generation_changes_its_own_chain_alone() -> None:
    before, after = (listener(route(ONE, turn), route(TWO)) for turn in (0, 1))
    changed = [old != new for old, new in zip(before["filter_chains"], after["filter_chains"], strict=True)]
    assert changed == [True, False]
    rest = [{key: value for key, value in each.items() if key != "filter_chains"} for each in (before, after)]
    assert rest[0] == rest[1]


def test_only_http_1_and_no_port_of_its_own() -> None:
    text = json.dumps([PLACE.start(), listener(route(ONE)), PLACE.clusters([route(ONE)])])
    assert '"alpn_protocols": ["http/1.1"]' in text
    assert text.count("port_value") == 1
    assert PLACE.start()["admin"]["address"]["pipe"]["mode"] == 0o600


def test_connections_without_a_request_end_soon_and_streams_have_their_hour() -> None:
    found = listener(route(ONE))
    for chain in (*found["filter_chains"], found["default_filter_chain"]):
        assert chain["transport_socket_connect_timeout"] == "10s"
        assert manager(chain)["common_http_protocol_options"]["idle_timeout"] == "60s"
        assert manager(chain)["stream_idle_timeout"] == "3600s"


def test_what_is_the_doors_own_however_it_is_written() -> None:
    own = (
        "/.gpuaas",
        "/.gpuaas/x",
        "//.gpuaas",
        "/a/../.gpuaas",
        "/a/..%2f.gpuaas/x",
        "/%2eGPUAAS/",
        "/.gpuaas\\x",
    )
    others = ("/", "/.gpuaass", "/a/.gpuaas/x", "/gpuaas", "/.gpu%20aas", "/%")
    assert [path for path in own if not is_own(path)] == []
    assert [path for path in others if is_own(path)] == []
