"""The approver at a real certificates API: real requesters, keys and signatures, and the cluster's own signer."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

import pytest
from cryptography import x509
from django.db import connection

from gpuaas.core import clock
from gpuaas.core.errors import Permanent
from gpuaas.providers.baremetal.approval import CLIENT_SIGNER, CLIENT_USAGES, SERVING_USAGES
from gpuaas.providers.baremetal.approver import JOIN_WITHIN, REQUESTS, requests_decide
from gpuaas.providers.baremetal.models import CertificateApproval, Host
from gpuaas.providers.kubeapi.client import Api, Object
from tests.lab.fixtures import LabSite
from tests.providers.baremetal.conftest import BoundHost
from tests.providers.baremetal.kubelets import Asker, condition, issued, key_new, node, pem_of

pytestmark = pytest.mark.lab


@dataclass(frozen=True)
class Approver:
    """That of one cluster, at an API server of its own."""

    admin: Api
    cluster_id: uuid.UUID

    def run(self, *names: str) -> list[tuple[str, str]]:
        """What became of these, in order."""
        requests_decide(self.admin, cluster_id=self.cluster_id)
        return [condition(self.admin, name) for name in names]


@pytest.fixture
def approver(admin: Api, cluster_id: uuid.UUID) -> Approver:
    return Approver(admin, cluster_id)


def joined(
    bare_metal_lab: LabSite, admin: Api, approver: Approver, bootstrapper: Asker, host: Host
) -> tuple[Asker, bytes]:
    """The host's own credential, by the first round."""
    key = key_new()
    name = bootstrapper.ask_client(host.name, key=key)
    assert approver.run(name) == [("Approved", "GpuaasExpectedHostClient")]
    certificate = issued(admin, name)
    return node(bare_metal_lab.kubeconfig, certificate, key), certificate


def test_a_host_joins_in_two_rounds(
    bare_metal_lab: LabSite, admin: Api, approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    host = bound()
    kubelet, certificate = joined(bare_metal_lab, admin, approver, bootstrapper, host)
    subject = x509.load_pem_x509_certificate(certificate).subject.rfc4514_string()
    assert subject == f"CN=system:node:{host.name},O=system:nodes"
    name = kubelet.ask_serving(host.name, host.name, *host.addresses)
    assert approver.run(name) == [("Approved", "GpuaasExpectedHostServing")]
    serving = x509.load_pem_x509_certificate(issued(admin, name))
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [host.name]
    assert CertificateApproval.objects.filter(host=host).count() == 2


def test_a_requester_that_is_not_the_bootstrapper_is_denied(
    approver: Approver, tenant: Asker, bound: BoundHost
) -> None:
    name = tenant.ask_client(bound().name)
    assert approver.run(name) == [("Denied", "GpuaasWrongRequester")]


def test_nobody_but_the_host_gets_its_serving_certificate(
    approver: Approver, tenant: Asker, bootstrapper: Asker, bound: BoundHost
) -> None:
    host = bound()
    names = [asker.ask_serving(host.name, host.name) for asker in (tenant, bootstrapper)]
    assert approver.run(*names) == [("Denied", "GpuaasWrongRequester")] * 2


def test_a_host_asks_for_no_other_host(
    bare_metal_lab: LabSite, admin: Api, approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    """NodeRestriction refuses it before we see it; where that is off, names do not fit."""
    one, other = bound(), bound()
    kubelet, _ = joined(bare_metal_lab, admin, approver, bootstrapper, one)
    with pytest.raises(Permanent):
        kubelet.ask_serving(other.name, other.name)
    name = kubelet.ask_serving(one.name, other.name)
    assert approver.run(name) == [("Denied", "GpuaasWrongNames")]


@pytest.mark.parametrize(
    "sans",
    [("api.example.org",), ("198.51.100.7",), ("192.0.2.0", "kubernetes.default.svc"), ("2001:db8::1",)],
    ids=" ".join,
)
def test_names_and_addresses_of_others_are_denied(
    bare_metal_lab: LabSite,
    admin: Api,
    approver: Approver,
    bootstrapper: Asker,
    bound: BoundHost,
    sans: tuple[str, ...],
) -> None:
    host = bound()
    kubelet, _ = joined(bare_metal_lab, admin, approver, bootstrapper, host)
    name = kubelet.ask_serving(host.name, host.name, *host.addresses, *sans)
    assert approver.run(name) == [("Denied", "GpuaasWrongNames")]
    assert not CertificateApproval.objects.filter(host=host, round="serving").exists()


def test_a_second_request_is_a_replay_until_the_host_is_bound_again(
    approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    host = bound()
    key = key_new()
    first = bootstrapper.ask_client(host.name, key=key)
    assert approver.run(first) == [("Approved", "GpuaasExpectedHostClient")]
    again, stolen = bootstrapper.ask_client(host.name, key=key), bootstrapper.ask_client(host.name)
    assert approver.run(again, stolen) == [("Denied", "GpuaasReplay")] * 2
    Host.objects.filter(pk=host.pk).update(binding=2, bound_at=clock.now())
    assert approver.run(bootstrapper.ask_client(host.name)) == [("Approved", "GpuaasExpectedHostClient")]


def test_hosts_that_nobody_expects_are_denied(
    approver: Approver, bootstrapper: Asker, bound: BoundHost, cluster_id: uuid.UUID
) -> None:
    elsewhere = bound(cluster_id=uuid.uuid4())
    free = bound(state="free", cluster_id=None, bound_at=None)
    wiping = bound(state="wiping")
    names = [bootstrapper.ask_client(name) for name in ("nobody", elsewhere.name, free.name, wiping.name, "")]
    assert approver.run(*names) == [("Denied", "GpuaasUnexpectedHost")] * len(names)


def test_a_host_has_its_time_to_join(approver: Approver, bootstrapper: Asker, bound: BoundHost) -> None:
    late = bound(bound_at=clock.now() - JOIN_WITHIN)
    early = bound(bound_at=clock.now() + timedelta(hours=1))
    names = [bootstrapper.ask_client(host.name) for host in (late, early)]
    assert approver.run(*names) == [("Denied", "GpuaasTooLate"), ("Denied", "GpuaasTooEarly")]


def test_a_signer_that_is_not_for_nodes_is_denied_and_others_are_left_alone(
    approver: Approver, bootstrapper: Asker, tenant: Asker, bound: BoundHost
) -> None:
    host = bound()
    wrong = bootstrapper.ask(pem_of(host.name), "kubernetes.io/kube-apiserver-client", CLIENT_USAGES)
    theirs = tenant.ask(pem_of(host.name), "example.org/mesh", CLIENT_USAGES)
    person = pem_of("", organizations=("developers",), common_name="carol")
    persons = tenant.ask(person, "kubernetes.io/kube-apiserver-client", CLIENT_USAGES)
    assert approver.run(wrong, theirs, persons) == [("Denied", "GpuaasWrongSigner"), ("", ""), ("", "")]


def test_usages_of_the_other_round_are_denied(
    approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    """The API takes them; the signer would fail them later without a word to the host."""
    host = bound()
    name = bootstrapper.ask(pem_of(host.name), CLIENT_SIGNER, SERVING_USAGES)
    assert approver.run(name) == [("Denied", "GpuaasWrongUsages")]


def test_what_others_have_approved_uses_up_the_round(
    admin: Api, approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    """An installer approves its own hosts while it runs; what comes after it is a replay all the same."""
    host = bound()
    first = bootstrapper.ask_client(host.name)
    found = admin.get(f"{REQUESTS}/{first}")
    found["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Installer"}]}
    admin.replace(f"{REQUESTS}/{first}/approval", found)
    second = bootstrapper.ask_client(host.name)
    assert approver.run(first, second) == [("Approved", "Installer"), ("Denied", "GpuaasReplay")]


def test_no_serving_certificate_for_an_identity_that_was_not_approved(
    bare_metal_lab: LabSite, admin: Api, approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    host = bound()
    kubelet, _ = joined(bare_metal_lab, admin, approver, bootstrapper, host)
    CertificateApproval.objects.filter(host=host).delete()
    for request in admin.items(REQUESTS):
        admin.delete(f"{REQUESTS}/{request['metadata']['name']}")
    name = kubelet.ask_serving(host.name, host.name)
    assert approver.run(name) == [("Denied", "GpuaasNoClientCertificate")]


class Dies(Exception):
    """The worker is gone."""


class Fragile:
    """A worker's API that loses it right before it answers."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin
        self.items: Callable[..., object] = admin.items

    def replace(self, path: str, body: Object) -> Object:
        raise Dies


def test_a_worker_that_dies_between_record_and_answer_is_made_good(
    admin: Api, approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    host = bound()
    name = bootstrapper.ask_client(host.name)
    with pytest.raises(Dies):
        requests_decide(Fragile(admin), cluster_id=approver.cluster_id)  # type: ignore[arg-type]  # breaks on purpose
    assert condition(admin, name) == ("", "")
    other = bootstrapper.ask_client(host.name)
    assert approver.run(name, other) == [
        ("Approved", "GpuaasExpectedHostClient"),
        ("Denied", "GpuaasReplay"),
    ]


@pytest.mark.django_db(transaction=True)
def test_of_many_requests_and_workers_at_once_one_is_approved(
    admin: Api, approver: Approver, bootstrapper: Asker, bound: BoundHost
) -> None:
    host = bound()
    names = [bootstrapper.ask_client(host.name) for _ in range(4)]

    def work(_: int) -> None:
        try:
            requests_decide(admin, cluster_id=approver.cluster_id)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(work, range(4)))
    decisions = sorted(condition(admin, name)[0] for name in names)
    assert decisions == ["Approved", "Denied", "Denied", "Denied"]
    assert CertificateApproval.objects.filter(host=host).count() == 1
