"""Checks of the API server: its version, its APIs, its clock, and the lifetime of the portal's credentials."""

import base64
import json
from datetime import UTC, datetime, timedelta

import yaml
from cryptography import x509

from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards.kinds import ADMISSION
from gpuaas.providers.kubernetes.health import is_ready
from gpuaas.providers.verdicts import Kind, clock_check, expiry_check, some

VERSION = Kind("ApiVersion", blocking=True)
FEATURES = Kind("ApiFeatures", blocking=True)
HEARTBEATS = Kind("NodeHeartbeats")

OLDEST, NEWEST_SEEN = (
    (1, 30),
    (1, 36),
)  # the oldest with ValidatingAdmissionPolicy v1; the newest that we tested
# tokens of members and the start of pods are compared with our clock
NODE_AHEAD, NODE_SILENT = timedelta(seconds=10), timedelta(seconds=60)


def version(api: Api) -> Check:
    found = api.get("/version")
    text = str(found.get("gitVersion", ""))
    have = (_digits(found.get("major")), _digits(found.get("minor")))
    if have < OLDEST:
        return VERSION.bad(
            "TooOld",
            f"{text} has no ValidatingAdmissionPolicy v1, which the guards require.",
            f"Upgrade the cluster to Kubernetes {OLDEST[0]}.{OLDEST[1]} or newer.",
        )
    if have > NEWEST_SEEN:
        return VERSION.good("Newer", f"{text} is newer than the last version tested with the portal (1.36).")
    return VERSION.good("Supported", f"{text} is supported.")


def features(api: Api) -> Check:
    policies = {each["name"] for each in (api.find(f"{ADMISSION}/v1") or {}).get("resources") or []}
    if "validatingadmissionpolicies" not in policies:
        return FEATURES.bad(
            "NoPolicies",
            "The API server does not serve ValidatingAdmissionPolicy v1: tenants could leave their pools.",
            "Upgrade the cluster, or enable admissionregistration.k8s.io/v1 in --runtime-config.",
        )
    served = {
        "MutatingAdmissionPolicy": "mutatingadmissionpolicies" in policies,
        "DRA (resource.k8s.io/v1)": api.find("/apis/resource.k8s.io/v1") is not None,
    }
    have = ["ValidatingAdmissionPolicy", *(name for name, is_there in served.items() if is_there)]
    lacks = [name for name, is_there in served.items() if not is_there]
    without = f" Not served, but optional: {', '.join(lacks)}." if lacks else ""
    return FEATURES.good("Served", f"Served: {', '.join(have)}.{without}")


def credentials(kubeconfig: str) -> Check:
    """Client certificates and tokens with an expiry date."""
    return expiry_check(min(filter(None, map(_ends_at, _users(kubeconfig))), default=None))


def skew(api: Api) -> Check:
    return clock_check(api.server_time, whose="site", server="The API server")


def heartbeats(api: Api, nodes: list[Object]) -> Check:
    """Kubelets renew leases with their node's clock: a future time means it is ahead, an old one of a Ready node that it lags."""
    theirs = api.server_time()
    if theirs is None:
        return HEARTBEATS.unknown("NotTold", "The API server does not report its time.")
    leases = api.items("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
    signed = {
        lease["metadata"]["name"]: datetime.fromisoformat(lease["spec"]["renewTime"])
        for lease in leases
        if (lease.get("spec") or {}).get("renewTime")
    }
    ready = {node["metadata"]["name"] for node in nodes if is_ready(node)}
    ahead = sorted(name for name in ready & signed.keys() if signed[name] - theirs > NODE_AHEAD)
    silent = sorted(name for name in ready & signed.keys() if theirs - signed[name] > NODE_SILENT)
    if ahead or silent:
        return HEARTBEATS.bad(
            "OutOfStep",
            f"{len(ahead)} nodes renew their leases with a future time ({some(ahead) or 'none'}), "
            f"{len(silent)} have not renewed theirs for a minute ({some(silent) or 'none'}).",
            "Check the time service (chrony) of these nodes, and their connection to the API server.",
        )
    return HEARTBEATS.good("InTime", f"{len(ready)} ready nodes renew their leases in time.")


def _digits(text: object) -> int:
    """Some clouds write `30+`."""
    found = "".join(letter for letter in str(text) if letter.isdigit())
    return int(found) if found else 0


def _users(kubeconfig: str) -> list[Object]:
    """The user of the current context; the client has validated the kubeconfig already."""
    given = yaml.safe_load(kubeconfig)
    context: Object = next(
        (
            each["context"]
            for each in given.get("contexts") or []
            if each["name"] == given.get("current-context")
        ),
        {},
    )
    return [
        each.get("user") or {} for each in given.get("users") or [] if each["name"] == context.get("user")
    ]


def _ends_at(user: Object) -> datetime | None:
    try:
        if certificate := user.get("client-certificate-data"):
            return x509.load_pem_x509_certificate(base64.b64decode(certificate)).not_valid_after_utc
        if token := user.get("token"):
            part = str(token).split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
            return datetime.fromtimestamp(int(claims["exp"]), UTC)
    except (ValueError, KeyError, IndexError, TypeError):
        return None  # an opaque token
    return None
