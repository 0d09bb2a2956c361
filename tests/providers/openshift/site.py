"""What of OpenShift the lab can have: its kinds of quota and route as CRDs, and its API of projects, aggregated as there.

The API of projects is a small server of ours behind the lab's own aggregator. It stands for what OpenShift's does: it makes the
namespace by itself from the site's template, names who has asked, and shows each namespace as a project of the same uid.
"""

import json
import ssl
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpuaas.core.errors import GpuaasError, NotFound
from gpuaas.providers.kubeapi.client import Api, Object
from tests.lab.fixtures import until

GROUP = "project.openshift.io"
V1 = f"/apis/{GROUP}/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
UID_RANGE = {"openshift.io/sa.scc.uid-range": "1000690000/10000", "openshift.io/sa.scc.mcs": "s0:c26,c15"}
TEMPLATE = {"example.com/from-template": "yes"}
RESOURCES = [
    {
        "name": "projects",
        "singularName": "",
        "namespaced": False,
        "kind": "Project",
        "verbs": ["get", "delete"],
    },
    {
        "name": "projectrequests",
        "singularName": "",
        "namespaced": False,
        "kind": "ProjectRequest",
        "verbs": ["create"],
    },
]


def crds_load(api: Api) -> None:
    """Harmless to every other test: nobody but the OpenShift driver asks for these kinds."""
    for plural, kind, group, scope in (
        ("clusterresourcequotas", "ClusterResourceQuota", "quota.openshift.io", "Cluster"),
        ("routes", "Route", "route.openshift.io", "Namespaced"),
    ):
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version: Object = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": free}}
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": scope, "names": names, "versions": [version]},
        }
        api.apply(CRDS, body)
        path = f"/apis/{group}/v1/{plural}"
        until(partial(_served, api, path), f"{plural} are served")


def _served(api: Api, path: str) -> bool:
    """A kind that is new answers 429 until its storage is there."""
    try:
        return api.find(path) is not None
    except GpuaasError:
        return False


class ProjectApi:
    """`forbidden`: nobody may ask. `silent`: the template names no requester. `lost`: the answer to a request is lost."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api = api
        self.forbidden = self.silent = self.lost = False
        self.requests: list[str] = []
        self.deleted: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"site": self}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificate(folder))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def register(self) -> None:
        space = "openshift-apiserver"
        self.api.apply("/api/v1/namespaces", _object("v1", "Namespace", space))
        service = _object("v1", "Service", "api")
        service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        self.api.apply(f"/api/v1/namespaces/{space}/services", service)
        registered = _object("apiregistration.k8s.io/v1", "APIService", f"v1.{GROUP}")
        registered["spec"] = {
            "group": GROUP,
            "version": "v1",
            "groupPriorityMinimum": 9900,
            "versionPriority": 15,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": space, "name": "api", "port": self._server.server_address[1]},
        }
        self.api.apply("/apis/apiregistration.k8s.io/v1/apiservices", registered)
        until(partial(_served, self.api, V1), "the API of projects is aggregated")

    def close(self) -> None:
        self._server.shutdown()

    def ask(self, body: Object, user: str) -> tuple[int, Object]:
        """POST projectrequests."""
        name = body["metadata"]["name"]
        if self.forbidden:
            words = "You may not request a new project via this API."
            return 403, {"kind": "Status", "status": "Failure", "message": words, "code": 403}
        if self.api.find(f"/api/v1/namespaces/{name}") is not None:
            return 409, {"kind": "Status", "status": "Failure", "message": "already exists", "code": 409}
        self.requests.append(name)
        annotations = {**UID_RANGE, "openshift.io/description": body.get("description", "")}
        if not self.silent:
            annotations["openshift.io/requester"] = user
        metadata = {"name": name, "annotations": annotations, "labels": TEMPLATE}
        made = self.api.create("/api/v1/namespaces", {"metadata": metadata})
        if self.lost:
            return 500, {
                "kind": "Status",
                "status": "Failure",
                "message": "the connection broke",
                "code": 500,
            }
        return 201, _project(made)


class Handler(BaseHTTPRequestHandler):
    site: ProjectApi
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == V1:
            kind = {"kind": "APIResourceList", "apiVersion": "v1"}
            self._answer(200, {**kind, "groupVersion": f"{GROUP}/v1", "resources": RESOURCES})
        elif path.startswith(f"{V1}/projects/"):
            found = self.site.api.find(f"/api/v1/namespaces/{path.rsplit('/', 1)[1]}")
            self._answer(200, _project(found)) if found else self._missing()
        else:
            self._missing()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(*self.site.ask(body, self.headers["X-Remote-User"]))

    def do_DELETE(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = self.path.partition("?")[0].rsplit("/", 1)[1]
        try:
            self.site.api.delete(f"/api/v1/namespaces/{name}", json.loads(raw) if raw else None)
        except NotFound:
            self._missing()
            return
        self.site.deleted.append(name)
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _missing(self) -> None:
        self._answer(404, {"kind": "Status", "status": "Failure", "message": "not found", "code": 404})

    def _answer(self, status: int, body: Object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def _project(namespace: Object) -> Object:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Project", "metadata": namespace["metadata"], "spec": {}}


def _object(api: str, kind: str, name: str) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}}


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "project-api.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path
