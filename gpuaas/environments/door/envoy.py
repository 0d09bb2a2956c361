"""What Envoy is told: its start, its listener with a filter chain for each environment, and a cluster for each. Pure.

A host has a filter chain of its own, found by SNI, and HTTP/1.1 alone, so that no connection serves two hosts. A chain is
replaced where its generation differs: Envoy then ends the connections of the old one, open WebSockets included.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = dict[str, Any]

PORTAL, SECRET = "portal", "certificate"
# below it the door itself answers, and nothing of it reaches a pod
OWN = "/.gpuaas"
SOCKET, ADMIN, START = "portal.sock", "admin.sock", "envoy.json"
LISTENERS, CLUSTERS, SECRETS = "listeners.json", "clusters.json", "secrets.json"
CERTIFICATE, KEY, TLS = "certificate.pem", "key.pem", "tls"
# what the portal is told of a request. Not `upgrade`: its server would take the question for a WebSocket
ASKED = (
    *("cookie", "authorization", "accept", "origin", "sec-websocket-version", "x-forwarded-for"),
    *("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-purpose", "service-worker"),
)
# what the portal's answer sets in a request that goes on to the pod
SET = ("cookie", "x-gpuaas-user", "x-gpuaas-key")
# names by which somebody could claim to be somebody; what is true of them is set again behind
CLAIMED = ("x-forwarded-", "x-gpuaas-", "x-envoy-", "x-auth-request-", "x-remote-")
CLAIMS = ("forwarded", "x-real-ip", "remote-user", "x-original-url", "x-rewrite-url")
IDLE, HEADERS, CONNECT = "3600s", "15s", "15s"
# of a connection that has no request, or never finishes its handshake: whoever it is, it takes one of MOST places
UNASKED, HANDSHAKE, MOST = "60s", "10s", 20_000
# for which the portal keeps a connection that nobody uses
KEPT_SECONDS = 120
# requests under way end within it when a chain is replaced; the same is said to Envoy's command line
DRAIN_SECONDS = 1
# asked of its administration: requests under way by cluster
ASK_OPEN = (
    b"GET /stats?usedonly&filter=upstream_rq_active$ HTTP/1.1\r\nHost: door\r\nConnection: close\r\n\r\n"
)
# a whole key is more than Envoy takes as an expression
KEY_IN_PATH = ".*gpk_[0-9a-f]{12}_.*"
OPEN = re.compile(r"^cluster\.([0-9a-f]{32})\.upstream_rq_active: [1-9]", re.MULTILINE)


def open_in(answer: str) -> set[str]:
    """Labels of the environments that are asked something just now, by the answer to ASK_OPEN."""
    return set(OPEN.findall(answer))


@dataclass(frozen=True)
class Route:
    """label: of the environment's host. way: the socket of this machine that leads to it. generation: another one ends the
    connections that there are."""

    label: str
    way: Path
    generation: int = 0


@dataclass(frozen=True)
class Place:
    """The folder of files and sockets of one door process, and where it listens."""

    folder: Path
    host: str
    port: int
    domain: str

    def start(self) -> Object:
        """The administration is a socket of the account that runs the door: never a port."""
        return {
            "node": {"id": "door", "cluster": "door"},
            "admin": {"address": {"pipe": {"path": str(self.folder / ADMIN), "mode": 0o600}}},
            "dynamic_resources": {
                "lds_config": self._watched(LISTENERS),
                "cds_config": self._watched(CLUSTERS),
            },
            "static_resources": {
                "clusters": [_cluster(PORTAL, self.folder / SOCKET, idle=f"{KEPT_SECONDS // 2}s")]
            },
            "overload_manager": {
                "resource_monitors": [
                    _typed(
                        "envoy.resource_monitors.global_downstream_max_connections",
                        "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                        max_active_downstream_connections=MOST,
                    )
                ]
            },
        }

    def secrets(self) -> Object:
        files = {
            "certificate_chain": {"filename": str(self.folder / TLS / CERTIFICATE)},
            "private_key": {"filename": str(self.folder / TLS / KEY)},
            "watched_directory": {"path": str(self.folder / TLS)},
        }
        kind = "extensions.transport_sockets.tls.v3.Secret"
        return _resources([{"@type": _type(kind), "name": SECRET, "tls_certificate": files}])

    def clusters(self, routes: Iterable[Route]) -> Object:
        kind = _type("config.cluster.v3.Cluster")
        return _resources([{"@type": kind, **_cluster(each.label, each.way)} for each in routes])

    def listeners(self, routes: Iterable[Route]) -> Object:
        inspector = _typed(
            "envoy.filters.listener.tls_inspector",
            "extensions.filters.listener.tls_inspector.v3.TlsInspector",
        )
        listener = {
            "@type": _type("config.listener.v3.Listener"),
            "name": "door",
            "address": {"socket_address": {"address": self.host, "port_value": self.port}},
            "listener_filters": [inspector],
            "filter_chains": [self._chain(each) for each in routes],
            "default_filter_chain": self._filters(
                "nowhere", [{"name": "nowhere", "domains": ["*"], "routes": [_own("/")]}]
            ),
            "per_connection_buffer_limit_bytes": 1 << 20,
        }
        return _resources([listener])

    def _watched(self, name: str) -> Object:
        watched = {"path": str(self.folder / name), "watched_directory": {"path": str(self.folder)}}
        return {"path_config_source": watched, "resource_api_version": "V3"}

    def _chain(self, route: Route) -> Object:
        host = f"{route.label}.{self.domain.partition(':')[0]}"
        onward = {
            "match": {"prefix": "/"},
            "route": {
                "cluster": route.label,
                "timeout": "0s",
                # a pod may end a connection that was kept in the very moment in which it is used again
                "retry_policy": {"retry_on": "connect-failure,reset-before-request", "num_retries": 1},
            },
        }
        served = {
            "name": route.label,
            # with the port, too, whatever it is
            "domains": [host, f"{host}:*"],
            "routes": [_own(f"{OWN}/"), onward],
            "request_headers_to_add": [
                {
                    "header": {"key": "x-forwarded-host", "value": "%REQ(:authority)%"},
                    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                }
            ],
            "request_headers_to_remove": ["x-envoy-external-address", "x-envoy-internal"],
            # by the one a script could serve more than its own folder, and so the door's pages; by the other a page could take away
            # the cookies of all hosts of the domain that this one belongs to, other environments and the portal among them
            # (https://www.w3.org/TR/clear-site-data/#grammardef-cookies)
            "response_headers_to_remove": ["service-worker-allowed", "clear-site-data"],
        }
        name = f"{route.label}.{route.generation}"
        return {"filter_chain_match": {"server_names": [host]}, **self._filters(name, [served])}

    def _filters(self, name: str, hosts: list[Object]) -> Object:
        return {
            "name": name,
            "filters": [_manager(name, hosts)],
            "transport_socket_connect_timeout": HANDSHAKE,
            "transport_socket": _typed(
                "envoy.transport_sockets.tls",
                "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                common_tls_context={
                    "alpn_protocols": ["http/1.1"],
                    "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                    "tls_certificate_sds_secret_configs": [
                        {"name": SECRET, "sds_config": self._watched(SECRETS)}
                    ],
                },
            ),
        }


def _manager(name: str, hosts: list[Object]) -> Object:
    """name: with the generation, which is so a part of the chain's configuration."""
    early: list[Object] = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in CLAIMED]
    early += [{"remove": header} for header in CLAIMS]
    return _typed(
        "envoy.filters.network.http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="door",
        codec_type="HTTP1",
        use_remote_address=True,
        normalize_path=True,
        strip_trailing_host_dot=True,
        server_header_transformation="PASS_THROUGH",
        generate_request_id=False,
        request_headers_timeout=HEADERS,
        stream_idle_timeout=IDLE,
        drain_timeout="0.2s",
        common_http_protocol_options={
            "idle_timeout": UNASKED,
            "headers_with_underscores_action": "DROP_HEADER",
        },
        early_header_mutation_extensions=[
            _typed(
                "envoy.http.early_header_mutation.header_mutation",
                "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
                mutations=early,
            )
        ],
        upgrade_configs=[{"upgrade_type": "websocket"}],
        access_log=[_log(with_key=False), _log(with_key=True)],
        http_filters=[
            _authorization(),
            _typed(
                "envoy.filters.http.router",
                "extensions.filters.http.router.v3.Router",
                suppress_envoy_headers=True,
            ),
        ],
        route_config={"name": name, "virtual_hosts": hosts, "validate_clusters": False},
    )


def _authorization() -> Object:
    """Asks for every request, upgrades included; whatever is not answered is refused."""
    return _typed(
        "envoy.filters.http.ext_authz",
        "extensions.filters.http.ext_authz.v3.ExtAuthz",
        http_service={
            "server_uri": {"uri": "http://portal", "cluster": PORTAL, "timeout": "10s"},
            "authorization_response": {
                "allowed_upstream_headers": {"patterns": [{"exact": each} for each in SET]}
            },
        },
        allowed_headers={"patterns": [{"exact": each} for each in ASKED]},
        failure_mode_allow=False,
        status_on_error={"code": "ServiceUnavailable"},
    )


def _own(prefix: str) -> Object:
    """What the door itself answers. It is told that it was not asked for leave, but for the answer."""
    return {
        "match": {"prefix": prefix},
        "route": {"cluster": PORTAL, "timeout": "15s"},
        "request_headers_to_add": [{"header": {"key": "x-gpuaas-answer", "value": "page"}}],
        "typed_per_filter_config": {
            "envoy.filters.http.ext_authz": {
                "@type": _type("extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute"),
                "disabled": True,
            }
        },
    }


def _log(*, with_key: bool) -> Object:
    """Without the query, which may have a ticket; and without the path where somebody wrote a key into the address, which is
    refused whatever the key."""
    in_address = {"string_match": {"safe_regex": {"regex": KEY_IN_PATH}}}
    header = {"name": ":path", **in_address, "invert_match": not with_key}
    line = {
        "time": "%START_TIME%",
        "host": "%REQ(:authority)%",
        "method": "%REQ(:method)%",
        "path": "a key" if with_key else "%PATH(NQ:PATH)%",
        "status": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "ms": "%DURATION%",
        "sent": "%BYTES_SENT%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    }
    log = _typed(
        "envoy.access_loggers.stdout",
        "extensions.access_loggers.stream.v3.StdoutAccessLog",
        log_format={"json_format": line},
    )
    return {**log, "filter": {"header_filter": {"header": header}}}


def _cluster(name: str, way: Path, *, idle: str = "55s") -> Object:
    """idle: after it Envoy ends a connection that nobody uses, before the other side does."""
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": str(way)}}}}]}]
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": CONNECT,
        "load_assignment": {"cluster_name": name, "endpoints": endpoints},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": _type("extensions.upstreams.http.v3.HttpProtocolOptions"),
                "common_http_protocol_options": {"idle_timeout": idle},
                "explicit_http_config": {"http_protocol_options": {}},
            }
        },
    }


def _type(kind: str) -> str:
    return f"type.googleapis.com/envoy.{kind}"


def _typed(name: str, kind: str, **settings: Any) -> Object:
    return {"name": name, "typed_config": {"@type": _type(kind), **settings}}


def _resources(rows: list[Object]) -> Object:
    return {"resources": rows}
