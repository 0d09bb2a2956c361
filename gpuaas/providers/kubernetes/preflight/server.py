"""The API server itself: its version, what it serves, its clock, and how long it will take our credentials."""

import base64
import json
from datetime import UTC, datetime, timedelta

import yaml
from cryptography import x509

from gpuaas.core import clock
from gpuaas.providers.base import Check
from gpuaas.providers.kubernetes.client import Api, Object
from gpuaas.providers.verdicts import Kind, some

VERSION = Kind("ApiVersion", blocking=True)
FEATURES = Kind("ApiFeatures", blocking=True)
CREDENTIALS = Kind("Credentials")
CLOCK = Kind("Clock")
HEARTBEATS = Kind("NodeHeartbeats")

OLDEST, NEWEST_SEEN = (
    (1, 30),
    (1, 36),
)  # the oldest with ValidatingAdmissionPolicy v1; the newest that we ran on
# tokens of members and the start of pods are compared with our clock
MOST_SKEW = timedelta(seconds=30)
NODE_AHEAD, NODE_SILENT = timedelta(seconds=10), timedelta(seconds=60)
EXPIRES_SOON = timedelta(days=14)
_POLICIES = "/apis/admissionregistration.k8s.io/v1"


def version(api: Api) -> Check:
    found = api.get("/version")
    text = str(found.get("gitVersion", ""))
    have = (_digits(found.get("major")), _digits(found.get("minor")))
    if have < OLDEST:
        return VERSION.bad(
            "TooOld",
            f"{text} has no ValidatingAdmissionPolicy v1, on which the guards rest.",
            f"Upgrade the cluster to Kubernetes {OLDEST[0]}.{OLDEST[1]} or newer.",
        )
    if have > NEWEST_SEEN:
        return VERSION.good("Newer", f"{text} is newer than what the portal was last tried with (1.36).")
    return VERSION.good("Supported", f"{text} is supported.")


def features(api: Api) -> Check:
    policies = {each["name"] for each in (api.find(_POLICIES) or {}).get("resources") or []}
    if "validatingadmissionpolicies" not in policies:
        return FEATURES.bad(
            "NoPolicies",
            "The API server does not serve ValidatingAdmissionPolicy v1: nothing would keep tenants in their pools.",
            "Upgrade the cluster, or switch admissionregistration.k8s.io/v1 on in --runtime-config.",
        )
    served = {
        "MutatingAdmissionPolicy": "mutatingadmissionpolicies" in policies,
        "DRA (resource.k8s.io/v1)": api.find("/apis/resource.k8s.io/v1") is not None,
    }
    have = ["ValidatingAdmissionPolicy", *(name for name, is_there in served.items() if is_there)]
    lacks = [name for name, is_there in served.items() if not is_there]
    without = f" Not served, and done without: {', '.join(lacks)}." if lacks else ""
    return FEATURES.good("Served", f"Served: {', '.join(have)}.{without}")


def credentials(kubeconfig: str) -> Check:
    """Client certificates and tokens that say when they end."""
    ends = min(filter(None, map(_ends_at, _users(kubeconfig))), default=None)
    if ends is None:
        return CREDENTIALS.good("NoEnd", "Our credentials do not say that they end.")
    left = ends - clock.now()
    if left < EXPIRES_SOON:
        return CREDENTIALS.bad(
            "ExpireSoon",
            f"Our credentials end at {ends:%Y-%m-%d %H:%M} UTC, in {max(left.days, 0)} days.",
            "Make new ones at the site and give them to it here (New credentials); what runs goes on meanwhile.",
        )
    return CREDENTIALS.good("Valid", f"Our credentials end at {ends:%Y-%m-%d %H:%M} UTC.")


def skew(api: Api) -> Check:
    """To the second: that is what the header says."""
    before = clock.now()
    theirs = api.server_time()
    if theirs is None:
        return CLOCK.unknown("NotTold", "The API server does not tell its time.")
    after = clock.now()
    off = max(before - theirs - timedelta(seconds=1), theirs - after, timedelta(0))
    if off > MOST_SKEW:
        return CLOCK.bad(
            "Apart",
            f"The site's clock and the portal's are {off.total_seconds():.0f} s apart.",
            "Let both follow a time server (chrony, systemd-timesyncd): usage is metered by these clocks.",
        )
    return CLOCK.good("InStep", "The site's clock and the portal's are in step.")


def heartbeats(api: Api, nodes: list[Object]) -> Check:
    """Kubelets sign with their node's clock: one from the future is ahead, an old one of a Ready node late or behind."""
    theirs = api.server_time()
    if theirs is None:
        return HEARTBEATS.unknown("NotTold", "The API server does not tell its time.")
    leases = api.items("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
    signed = {
        lease["metadata"]["name"]: datetime.fromisoformat(lease["spec"]["renewTime"])
        for lease in leases
        if (lease.get("spec") or {}).get("renewTime")
    }
    ready = {node["metadata"]["name"] for node in nodes if _is_ready(node)}
    ahead = sorted(name for name in ready & signed.keys() if signed[name] - theirs > NODE_AHEAD)
    silent = sorted(name for name in ready & signed.keys() if theirs - signed[name] > NODE_SILENT)
    if ahead or silent:
        return HEARTBEATS.bad(
            "OutOfStep",
            f"{len(ahead)} nodes sign in the future ({some(ahead) or 'none'}), "
            f"{len(silent)} have not signed for a minute ({some(silent) or 'none'}).",
            "Check the time service (chrony) of these nodes, and their network to the API server.",
        )
    return HEARTBEATS.good("InTime", f"{len(ready)} ready nodes sign in time.")


def _digits(text: object) -> int:
    """Some clouds write `30+`."""
    found = "".join(letter for letter in str(text) if letter.isdigit())
    return int(found) if found else 0


def _is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _users(kubeconfig: str) -> list[Object]:
    """The one of the current context; the client has taken the kubeconfig for good already."""
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
