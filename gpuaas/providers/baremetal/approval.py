"""Decides which certificate requests of kubelets are approved: two rounds, each once per expected host. Pure.

Round 1 (client): the bootstrapper asks `kubernetes.io/kube-apiserver-client-kubelet` for the host's identity, system:node:<host>.
Round 2 (serving): that identity asks `kubernetes.io/kubelet-serving` for its own name and addresses.

Sources of the rules: Kubernetes' reference "Certificates and Certificate Signing Requests" (what each signer permits: subject,
usages, names) and "TLS bootstrapping" (the requester); OpenShift's cluster-machine-approver (its bootstrapper's account, the two hours
after a machine was made, names of a serving certificate held to the machine's addresses). Stricter than both: only hosts that we
bound to the cluster, once for each binding, exact groups, and no serving certificate for an identity that we did not approve.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpuaas.core.errors import Invalid
from gpuaas.providers.baremetal.requests import Address, Claims, SigningRequest, claims_read

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
# signers that Kubernetes itself runs and that no node needs
OTHER_SIGNERS = frozenset({"kubernetes.io/kube-apiserver-client", "kubernetes.io/legacy-unknown"})
NODES, NODE = "system:nodes", "system:node:"
AUTHENTICATED = "system:authenticated"
# key encipherment: kubelets with an RSA key ask for it
CLIENT_USAGES = frozenset({"digital signature", "client auth"})
SERVING_USAGES = frozenset({"digital signature", "server auth"})
OPTIONAL_USAGE = "key encipherment"
SKEW = timedelta(
    seconds=10
)  # the cluster's clock against ours; its instants are cut to whole seconds besides


class Round(StrEnum):
    CLIENT = "client"
    SERVING = "serving"


class Action(StrEnum):
    APPROVE = "approve"
    DENY = "deny"
    LEAVE = "leave"  # not ours, or already decided
    NOTE = "note"  # somebody else approved what we would have approved, so that round is used up


@dataclass(frozen=True)
class Bootstrapper:
    """The identity that a host uses before it has a certificate of its own."""

    username: str
    groups: frozenset[str]


OPENSHIFT = Bootstrapper(
    "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper",
    frozenset(
        {"system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator", AUTHENTICATED}
    ),
)


@dataclass(frozen=True)
class ExpectedHost:
    """A host that is bound to the cluster. Only requests made in [opens_at, closes_at) count.

    client, serving: uid of the request that was approved in that round; "" = none yet. earlier: uids approved for earlier bindings.
    """

    name: str
    dns: frozenset[str]
    addresses: frozenset[Address]
    opens_at: datetime
    closes_at: datetime
    client: str = ""
    serving: str = ""
    earlier: frozenset[str] = frozenset()

    def used(self, which: "Round", uid: str) -> "ExpectedHost":
        return replace(self, client=uid) if which is Round.CLIENT else replace(self, serving=uid)


@dataclass(frozen=True)
class Verdict:
    """`reason` is a CamelCase word for the condition, `message` a sentence for people."""

    action: Action
    reason: str
    message: str
    host: str = ""
    round: Round | None = None


class _Refused(Exception):
    """The request is denied, for this reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def judge(
    request: SigningRequest,
    hosts: Mapping[str, ExpectedHost],
    *,
    now: datetime,
    bootstrapper: Bootstrapper = OPENSHIFT,
) -> Verdict:
    """Judge one request. `hosts`: those bound to the cluster, by name. Deterministic."""
    verdict = _judged(request, hosts, now, bootstrapper)
    if not request.decided:
        return verdict
    if request.approved and verdict.action is Action.APPROVE:
        return replace(verdict, action=Action.NOTE)
    return Verdict(Action.LEAVE, "Decided", "The request is already decided.")


def _judged(
    request: SigningRequest, hosts: Mapping[str, ExpectedHost], now: datetime, bootstrapper: Bootstrapper
) -> Verdict:
    try:
        if request.signer == CLIENT_SIGNER:
            return _client(request, hosts, now, bootstrapper)
        if request.signer == SERVING_SIGNER:
            return _serving(request, hosts, now)
    except _Refused as refused:
        return Verdict(Action.DENY, refused.reason, refused.message)
    if request.signer in OTHER_SIGNERS and _makes_a_node(request):
        return Verdict(Action.DENY, "WrongSigner", f"{request.signer} issues no certificates for nodes.")
    return Verdict(Action.LEAVE, "OtherSigner", f"The portal does not approve requests to {request.signer}.")


def replayed(host: ExpectedHost, which: Round) -> Verdict:
    """The host already has its one certificate of this round."""
    message = f"{host.name} already has its {which} certificate; an operator must bind the host again first."
    return Verdict(Action.DENY, "Replay", message, host.name, which)


def _client(
    request: SigningRequest, hosts: Mapping[str, ExpectedHost], now: datetime, bootstrapper: Bootstrapper
) -> Verdict:
    claims = _claims(request)
    if request.username == claims.common_name and request.username.startswith(NODE):
        return Verdict(
            Action.LEAVE, "Renewal", "A node renews its own certificate; the cluster handles that."
        )
    if request.username != bootstrapper.username:
        raise _Refused("WrongRequester", f"{request.username} is not {bootstrapper.username}.")
    if request.groups != bootstrapper.groups:
        raise _Refused(
            "WrongGroups", f"The requester's groups are not exactly {_listed(bootstrapper.groups)}."
        )
    _usages_check(request, CLIENT_USAGES)
    if claims.dns or claims.addresses:
        raise _Refused(
            "WrongNames", "A client certificate may have no names or addresses besides its subject."
        )
    host = _host(claims, hosts)
    if host.client == request.uid:
        return _approved(host, Round.CLIENT)
    if host.client or request.uid in host.earlier:
        return replayed(host, Round.CLIENT)
    _window_check(request, host, now)
    return _approved(host, Round.CLIENT)


def _serving(request: SigningRequest, hosts: Mapping[str, ExpectedHost], now: datetime) -> Verdict:
    claims = _claims(request)
    if not request.username.startswith(NODE) or request.username != claims.common_name:
        raise _Refused("WrongRequester", f"{request.username} is not {claims.common_name}.")
    if request.groups != {NODES, AUTHENTICATED}:
        raise _Refused("WrongGroups", f"The requester's groups are not exactly {NODES}, {AUTHENTICATED}.")
    _usages_check(request, SERVING_USAGES)
    host = _host(claims, hosts)
    if host.serving and request.created_at >= host.closes_at:
        return Verdict(
            Action.LEAVE, "Renewal", "A node renews its own certificate; the cluster handles that."
        )
    if not host.client:
        raise _Refused("NoClientCertificate", f"No client certificate of {host.name} has been approved yet.")
    _names_check(claims, host)
    if host.serving == request.uid:
        return _approved(host, Round.SERVING)
    if host.serving or request.uid in host.earlier:
        return replayed(host, Round.SERVING)
    _window_check(request, host, now)
    return _approved(host, Round.SERVING)


def _claims(request: SigningRequest) -> Claims:
    try:
        return claims_read(request.pem)
    except Invalid as error:
        raise _Refused("Malformed", f"{error.message[0].upper()}{error.message[1:]}.") from error


def _makes_a_node(request: SigningRequest) -> bool:
    """Whether the subject names a node, as far as it can be read."""
    try:
        claims = claims_read(request.pem)
    except Invalid:
        return False
    return claims.common_name.startswith(NODE) or NODES in claims.organizations


def _host(claims: Claims, hosts: Mapping[str, ExpectedHost]) -> ExpectedHost:
    if claims.organizations != (NODES,):
        raise _Refused("WrongSubject", f"The subject's organization is not {NODES} alone.")
    if not claims.common_name.startswith(NODE):
        raise _Refused("WrongSubject", f"{claims.common_name} does not begin with {NODE}.")
    name = claims.common_name.removeprefix(NODE)
    host = hosts.get(name)
    if host is None:
        raise _Refused("UnexpectedHost", f"No host {name} is bound to this cluster.")
    return host


def _usages_check(request: SigningRequest, wanted: frozenset[str]) -> None:
    if request.usages - {OPTIONAL_USAGE} != wanted:
        raise _Refused("WrongUsages", f"The usages are {_listed(request.usages)}, not {_listed(wanted)}.")


def _names_check(claims: Claims, host: ExpectedHost) -> None:
    if not claims.dns and not claims.addresses:
        raise _Refused("WrongNames", "A serving certificate needs a name or an address of its host.")
    foreign = [*sorted(claims.dns - host.dns), *sorted(map(str, claims.addresses - host.addresses))]
    if foreign:
        raise _Refused("WrongNames", f"Not a name or address of {host.name}: {', '.join(foreign)}.")


def _window_check(request: SigningRequest, host: ExpectedHost, now: datetime) -> None:
    if request.created_at < host.opens_at - SKEW:
        raise _Refused("TooEarly", f"The request was made before {host.name} was bound to this cluster.")
    if request.created_at >= host.closes_at or now >= host.closes_at:
        raise _Refused("TooLate", f"{host.name} was expected until {host.closes_at:%Y-%m-%d %H:%M:%S} UTC.")


def _approved(host: ExpectedHost, which: Round) -> Verdict:
    message = f"{host.name} is bound to this cluster; this is its one {which} certificate."
    return Verdict(Action.APPROVE, f"ExpectedHost{which.title()}", message, host.name, which)


def _listed(words: frozenset[str]) -> str:
    return ", ".join(sorted(words)) or "none"
