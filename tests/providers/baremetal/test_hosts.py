"""Who holds which host: of two orders for one host one gets it, and it is free only when it is clean."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, transaction

from gpuaas.core.errors import Conflict, NoCapacity, NotFound
from gpuaas.providers.baremetal import hosts
from gpuaas.providers.baremetal.models import Host, HostState
from tests.providers.baremetal.rack import host_make


def bind(site_id: uuid.UUID, cluster_id: uuid.UUID, slot: str = "gpu-1") -> Host:
    return hosts.host_bind(
        site_id=site_id,
        cluster_id=cluster_id,
        pool="gpu",
        slot=slot,
        resource_name="nvidia.com/gpu",
        gpus=8,
    )


def test_a_slot_has_one_host_however_often_it_is_asked_for(db: None) -> None:
    site, cluster = uuid.uuid4(), uuid.uuid4()
    host_make(site)
    host_make(site)
    first = bind(site, cluster)
    assert (first.state, first.binding, first.dirty) == (HostState.BOUND, 1, False)
    assert bind(site, cluster).pk == first.pk
    assert bind(site, cluster, "gpu-2").pk != first.pk


def test_only_hosts_of_this_kind_and_site_are_bound(db: None) -> None:
    site = uuid.uuid4()
    host_make(uuid.uuid4())
    few, broken = host_make(site, gpus=4), host_make(site, state=HostState.BROKEN, reason="a fan has failed")
    with pytest.raises(NoCapacity) as caught:
        bind(site, uuid.uuid4())
    assert caught.value.detail["evidence"] == [f"{broken.name}: broken (a fan has failed)"]
    assert few.name not in str(caught.value.detail)


@pytest.mark.django_db(transaction=True)
def test_of_many_orders_for_one_host_one_gets_it() -> None:
    site, clusters = uuid.uuid4(), [uuid.uuid4() for _ in range(8)]
    host_make(site)

    def order(cluster_id: uuid.UUID) -> str:
        try:
            return bind(site, cluster_id).name
        except NoCapacity:
            return ""
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as workers:
        got = list(workers.map(order, clusters))
    assert len(list(filter(None, got))) == 1
    assert Host.objects.get(site_id=site).cluster_id == clusters[next(i for i, one in enumerate(got) if one)]


@pytest.mark.django_db(transaction=True)
def test_two_workers_for_one_slot_bind_one_host() -> None:
    site, cluster = uuid.uuid4(), uuid.uuid4()
    for _ in range(4):
        host_make(site)

    def order(_: int) -> str:
        try:
            return bind(site, cluster).name
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as workers:
        assert len(set(workers.map(order, range(4)))) == 1
    assert Host.objects.filter(site_id=site, state=HostState.BOUND).count() == 1


def test_a_host_that_was_booted_is_free_only_when_it_is_clean(db: None) -> None:
    site, cluster = uuid.uuid4(), uuid.uuid4()
    host_make(site)
    host = bind(site, cluster)
    hosts.host_boots(host)
    hosts.host_wipe_begin(host)
    hosts.host_free(host)
    assert Host.objects.get(pk=host.pk).state == HostState.WIPING
    hosts.host_wiped(host)
    hosts.host_free(host)
    hosts.host_free(host)
    free = Host.objects.get(pk=host.pk)
    assert (free.state, free.cluster_id, free.slot, free.binding) == (HostState.FREE, None, "", 1)


@pytest.mark.parametrize(
    "wrong", [{"state": "free", "dirty": True}, {"state": "bound"}, {"state": "sold"}], ids=str
)
def test_the_database_refuses_what_cannot_be(db: None, wrong: dict[str, object]) -> None:
    host = host_make(uuid.uuid4())
    with pytest.raises(IntegrityError), transaction.atomic():
        Host.objects.filter(pk=host.pk).update(**wrong)


def test_operators_take_hosts_out_and_put_them_back(db: None) -> None:
    site, cluster = uuid.uuid4(), uuid.uuid4()
    host = host_make(site)
    hosts.host_take_out(site_id=site, name=host.name, reason="a fan has failed")
    with pytest.raises(NoCapacity):
        bind(site, cluster)
    hosts.host_put_back(site_id=site, name=host.name)
    with pytest.raises(Conflict):
        hosts.host_put_back(site_id=site, name=host.name)
    held = bind(site, cluster)
    hosts.host_take_out(site_id=site, name=host.name, reason="a fan has failed again")
    hosts.host_wipe_begin(held)
    hosts.host_free(held)
    assert Host.objects.get(pk=host.pk).state == HostState.BROKEN
    for name in ("take_out", "put_back"):
        with pytest.raises(NotFound):
            getattr(hosts, f"host_{name}")(site_id=site, name="nobody", **REASON[name])
    for name in ("cleaned", "rebind"):
        with pytest.raises(Conflict):
            getattr(hosts, f"host_{name}")(site_id=site, name=host.name)


REASON: dict[str, dict[str, str]] = {"take_out": {"reason": "x"}, "put_back": {}}
