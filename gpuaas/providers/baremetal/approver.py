"""Lists the certificate requests of one cluster's kubelets, judges and answers them. Any number may run at once.

The kubeconfig needs `get, list` on certificatesigningrequests, `update` on certificatesigningrequests/approval, and `approve` on the
signers kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kubelet-serving, kubernetes.io/kube-apiserver-client and
kubernetes.io/legacy-unknown (to deny requests there that would create a node).
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

import structlog

from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.providers.baremetal import approval
from gpuaas.providers.baremetal.models import CertificateApproval, Host, HostState
from gpuaas.providers.baremetal.requests import SigningRequest, request_read
from gpuaas.providers.kubeapi.client import Api, Object, Outdated

log = structlog.get_logger(__name__)
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
# a host boots an installer, writes its disks and boots again; big machines take many minutes for each boot
JOIN_WITHIN = timedelta(hours=6)


@dataclass(frozen=True)
class Decision:
    """The answer to one request."""

    request: str
    verdict: approval.Verdict


def requests_decide(
    api: Api, *, cluster_id: uuid.UUID, bootstrapper: approval.Bootstrapper = approval.OPENSHIFT
) -> tuple[Decision, ...]:
    """Answer the pending requests at the cluster's API, oldest first; those that others decided use up their rounds before.

    Requests are listed before hosts are read, so that no request is judged by older data.
    """
    listed = [(request_read(found), found) for found in api.items(REQUESTS)]
    listed.sort(key=lambda pair: (not pair[0].decided, pair[0].created_at))
    rows = {row.name: row for row in Host.objects.filter(cluster_id=cluster_id, state=HostState.BOUND)}
    hosts = hosts_expected(rows)
    made = []
    for request, found in listed:
        verdict = approval.judge(request, hosts, now=clock.now(), bootstrapper=bootstrapper)
        if verdict.action in {approval.Action.APPROVE, approval.Action.NOTE}:
            verdict, hosts = _claimed(rows[verdict.host], hosts, request, verdict)
        if verdict.action in {approval.Action.APPROVE, approval.Action.DENY} and _answer(api, found, verdict):
            made.append(Decision(request.name, verdict))
    return tuple(made)


def hosts_expected(rows: dict[str, Host]) -> dict[str, approval.ExpectedHost]:
    """With everything approved so far, by us or by others."""
    done: dict[uuid.UUID, list[CertificateApproval]] = defaultdict(list)
    for one in CertificateApproval.objects.filter(host__in=rows.values()):
        done[one.host_id].append(one)
    return {name: _expected(row, row.bound_at, done[row.pk]) for name, row in rows.items() if row.bound_at}


def _expected(row: Host, bound_at: datetime, done: Iterable[CertificateApproval]) -> approval.ExpectedHost:
    uids = {one.round: one.request_uid for one in done if one.binding == row.binding}
    return approval.ExpectedHost(
        name=row.name,
        dns=frozenset({row.name.lower()}),
        addresses=frozenset(map(ip_address, row.addresses)),
        opens_at=bound_at,
        closes_at=bound_at + JOIN_WITHIN,
        client=uids.get(approval.Round.CLIENT, ""),
        serving=uids.get(approval.Round.SERVING, ""),
        earlier=frozenset(one.request_uid for one in done if one.binding != row.binding),
    )


def _claimed(
    row: Host, hosts: dict[str, approval.ExpectedHost], request: SigningRequest, verdict: approval.Verdict
) -> tuple[approval.Verdict, dict[str, approval.ExpectedHost]]:
    """Claim the round for this request; if another worker claimed it first for another request, this one is a replay."""
    which = approval.Round(verdict.round or "")
    mine = CertificateApproval(
        host=row,
        binding=row.binding,
        round=which,
        request_uid=request.uid,
        request_name=request.name,
        written_at=clock.now(),
    )
    CertificateApproval.objects.bulk_create([mine], ignore_conflicts=True)
    held = CertificateApproval.objects.get(host=row, binding=row.binding, round=which).request_uid
    used = hosts[row.name].used(which, held)
    hosts = {**hosts, row.name: used}
    if verdict.action is approval.Action.NOTE:
        return verdict, hosts
    still = Host.objects.filter(pk=row.pk, binding=row.binding, state=HostState.BOUND).exists()
    if not still:
        return approval.Verdict(
            approval.Action.LEAVE, "Moved", f"{row.name} was released in the meantime."
        ), hosts
    if held != request.uid:
        return approval.replayed(used, which), hosts
    return verdict, hosts


def _answer(api: Api, found: Object, verdict: approval.Verdict) -> bool:
    """False if the request was answered, changed or removed in the meantime; the next round looks at it again."""
    condition = {
        "type": "Approved" if verdict.action is approval.Action.APPROVE else "Denied",
        "status": "True",
        "reason": f"Gpuaas{verdict.reason}",
        "message": verdict.message,
    }
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": found["metadata"],
        "spec": found["spec"],
        "status": {"conditions": [condition]},
    }
    name = found["metadata"]["name"]
    try:
        api.replace(f"{REQUESTS}/{name}/approval", body)
    except (NotFound, Outdated):
        return False
    log.info("kubelet_request_decided", request=name, action=verdict.action, reason=verdict.reason)
    return True
