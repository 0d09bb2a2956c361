"""Kubelets as far as their certificates go: real keys, real requests, real credentials at a real API server."""

import base64
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from gpuaas.providers.baremetal.approval import CLIENT_SIGNER, CLIENT_USAGES, SERVING_SIGNER, SERVING_USAGES
from gpuaas.providers.baremetal.approver import REQUESTS
from gpuaas.providers.kubeapi.client import Api, Object
from tests.lab.fixtures import until

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
MACHINE_CONFIG = "openshift-machine-config-operator"


def key_new() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem_of(
    name: str,
    *,
    key: Key | None = None,
    organizations: Iterable[str] = ("system:nodes",),
    sans: Iterable[str] = (),
    extra: x509.ExtensionType | None = None,
    more: Iterable[x509.NameAttribute[str]] = (),
    common_name: str = "",
) -> bytes:
    """sans: addresses and DNS names, told apart by their looks; with a colon and no address, a URI."""
    key = key or key_new()
    parts = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, one) for one in organizations]
    parts.append(x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name or f"system:node:{name}"))
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([*parts, *more]))
    if sans:
        made = made.add_extension(x509.SubjectAlternativeName([_san(one) for one in sans]), critical=False)
    if extra is not None:
        made = made.add_extension(extra, critical=True)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return made.sign(key, digest).public_bytes(serialization.Encoding.PEM)


def _san(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.UniformResourceIdentifier(text) if ":" in text else x509.DNSName(text)


@dataclass(frozen=True)
class Asker:
    """Somebody with a credential of the cluster, who may create requests."""

    api: Api

    def ask(self, pem: bytes, signer: str, usages: Iterable[str]) -> str:
        """The name of the request that was made."""
        name = f"csr-{uuid.uuid4().hex[:12]}"
        body = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(pem).decode(),
                "signerName": signer,
                "usages": sorted(usages),
            },
        }
        self.api.create(REQUESTS, body)
        return name

    def ask_client(self, host: str, **how: object) -> str:
        return self.ask(pem_of(host, **how), CLIENT_SIGNER, CLIENT_USAGES)  # type: ignore[arg-type]  # passed on

    def ask_serving(self, host: str, *sans: str, **how: object) -> str:
        return self.ask(pem_of(host, sans=sans, **how), SERVING_SIGNER, SERVING_USAGES)  # type: ignore[arg-type]  # passed on


def account(admin: Api, kubeconfig: str, namespace: str, name: str) -> Asker:
    """A service account that may create requests, by a token of its own."""
    admin.apply("/api/v1/namespaces", _thing("v1", "Namespace", name=namespace))
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    admin.apply(accounts, _thing("v1", "ServiceAccount", name=name, namespace=namespace))
    binding = _thing("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name=f"{namespace}-{name}-asks")
    binding["roleRef"] = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:node-bootstrapper",
    }
    binding["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    admin.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    token = admin.create(
        f"{accounts}/{name}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        },
    )["status"]["token"]
    made = Asker(Api(_as_user(kubeconfig, {"token": token})))
    until(lambda: _may_ask(made), f"{name} may ask")
    return made


def node(kubeconfig: str, certificate: bytes, key: Key) -> Asker:
    """With the client certificate that the cluster has issued."""
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(private).decode(),
    }
    return Asker(Api(_as_user(kubeconfig, user)))


def issued(admin: Api, name: str) -> bytes:
    """The certificate, once the cluster's own signer has made it."""

    def made() -> str:
        return str(admin.get(f"{REQUESTS}/{name}")["status"].get("certificate", ""))

    return base64.b64decode(until(made, f"the certificate of {name} is issued"))


def condition(admin: Api, name: str) -> tuple[str, str]:
    """Type and reason of the decision; empty where there is none."""
    found = admin.get(f"{REQUESTS}/{name}").get("status") or {}
    decisions = [(one["type"], one["reason"]) for one in found.get("conditions") or ()]
    assert len(decisions) <= 1
    return decisions[0] if decisions else ("", "")


def _may_ask(asker: Asker) -> bool:
    body = _thing("authorization.k8s.io/v1", "SelfSubjectAccessReview")
    body["spec"] = {
        "resourceAttributes": {
            "group": "certificates.k8s.io",
            "resource": "certificatesigningrequests",
            "verb": "create",
        }
    }
    seen = asker.api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(seen["status"]["allowed"])


def _as_user(kubeconfig: str, user: dict[str, str]) -> str:
    document = yaml.safe_load(kubeconfig)
    document["users"] = [{"name": one["name"], "user": user} for one in document["users"]]
    return yaml.safe_dump(document)


def _thing(version: str, kind: str, **metadata: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
