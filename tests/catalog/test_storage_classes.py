"""Storage classes of a site: which are known, and which of them plain storage is taken from."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services import site_probe, storage_plain_choose
from gpuaas.catalog.services.inventory import inventory_apply
from gpuaas.catalog.services.storage import KNOWN_FOR
from gpuaas.catalog.spec import storage_spec
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, GpuaasError
from gpuaas.providers.base import Inventory, ObservedStorageClass
from tenants.actors import Actor

pytestmark = pytest.mark.django_db


def found(site: Site, *classes: str, default: str | None = "", at: datetime | None = None) -> bool:
    """Whether workspaces have to be told. default: None = the site does not say which."""
    seen = tuple(
        ObservedStorageClass(name, default=None if default is None else name == default) for name in classes
    )
    with transaction.atomic():
        Site.objects.select_for_update().get(pk=site.pk)
        return inventory_apply(
            site=site,
            inventory=Inventory("1", (), (), storage_classes=seen),
            breaches={},
            at=at or clock.now(),
        )


def plain(site: Site) -> str:
    return ",".join(StorageClass.objects.filter(site=site, plain=True).values_list("name", flat=True))


def limits(site: Site, gib: int = 10, **bought: int) -> dict[str, int]:
    rows = {row.name: row.pk for row in StorageClass.objects.filter(site=site)}
    spec: dict[str, Any] = dict(
        storage_spec(site_id=site.pk, plain_gib=gib, bought={rows[name]: gib for name, gib in bought.items()})
    )
    return {**dict.fromkeys(spec["closed_classes"], 0), **spec["storage_classes"]}


def test_a_simulated_site_has_two(attached: Site) -> None:
    assert site_probe(attached.pk)
    rows = StorageClass.objects.filter(site=attached).values_list("name", "plain", "state", "slug")
    assert list(rows) == [("fast", False, "draft", ""), ("standard", True, "draft", "")]
    assert limits(attached) == {"fast": 0, "standard": 10}


def test_a_site_without_classes_has_storage_as_before(attached: Site) -> None:
    assert not found(attached)
    assert limits(attached) == {}


def test_workspaces_are_told_of_a_new_class_and_of_no_other_look(attached: Site) -> None:
    assert found(attached, "standard", default="standard")
    assert not found(attached, "standard", default="standard")
    assert found(attached, "standard", "premium", default="standard")
    assert not found(attached, "standard", "premium", default="standard")
    assert limits(attached) == {"premium": 0, "standard": 10}


def test_while_it_is_not_known_which_there_are_those_from_before_stay(attached: Site) -> None:
    found(attached, "standard", "premium", default="standard")
    with transaction.atomic():
        Site.objects.select_for_update().get(pk=attached.pk)
        inventory = Inventory("1", (), (), storage_classes=None)
        assert not inventory_apply(site=attached, inventory=inventory, breaches={}, at=clock.now())
    assert StorageClass.objects.filter(site=attached, present=True).count() == 2
    assert plain(attached) == "standard"


def test_a_first_look_that_does_not_learn_the_default_closes_nothing(attached: Site) -> None:
    """As before its classes are known there is one amount. A site that never says which has none, and an operator chooses."""
    assert not found(attached, "a", "b", default=None)
    assert limits(attached) == {}
    assert found(attached, "a", "b", default="b")
    assert limits(attached) == {"a": 0, "b": 10}
    StorageClass.objects.all().delete()
    now = clock.now()
    found(attached, "a", "b", default=None, at=now)
    found(attached, "a", "b", default=None, at=now + KNOWN_FOR - timedelta(seconds=1))
    assert limits(attached) == {}
    found(attached, "a", "b", default=None, at=now + KNOWN_FOR)
    assert limits(attached) == {"a": 0, "b": 0}


def test_a_default_that_is_not_answered_stays_for_ten_minutes(attached: Site) -> None:
    def defaults() -> list[str]:
        return list(StorageClass.objects.filter(is_default=True).values_list("name", flat=True))

    now = clock.now()
    found(attached, "a", "b", default="b", at=now)
    for minutes in (1, 9):
        found(attached, "a", "b", "new", default=None, at=now + timedelta(minutes=minutes))
        assert defaults() == ["b"]
        assert limits(attached) == {"a": 0, "b": 10, "new": 0}, "a new class is closed meanwhile"
    found(attached, "a", "b", "new", default=None, at=now + timedelta(minutes=11))
    assert (defaults(), plain(attached)) == ([], "b")
    found(attached, "a", "b", "new", default="b", at=now + timedelta(minutes=12))
    found(attached, "a", "b", "new", default=None, at=now + timedelta(minutes=13))
    assert defaults() == ["b"], "the minutes begin anew"


def test_plain_storage_follows_the_default_and_outlives_it(attached: Site) -> None:
    found(attached, "a", "b", default="b")
    assert plain(attached) == "b"
    assert not found(attached, "a", "b"), "between two changes of the default there is none"
    assert plain(attached) == "b"
    assert found(attached, "a", "b", default="a")
    assert plain(attached) == "a"


def test_the_only_class_is_plain_storage_and_of_several_none_is(attached: Site) -> None:
    found(attached, "a", "b")
    assert limits(attached) == {"a": 0, "b": 0}
    StorageClass.objects.all().delete()
    found(attached, "a")
    assert limits(attached) == {"a": 10}


def test_a_class_that_is_gone_stays_closed(attached: Site) -> None:
    found(attached, "a", "b", default="a")
    assert not found(attached, "a", default="a")
    assert limits(attached) == {"a": 10, "b": 0}
    row = StorageClass.objects.get(name="b")
    assert not row.present
    assert not found(attached, "a", "b", default="a")
    row.refresh_from_db()
    assert row.present


def test_an_operator_chooses_plain_storage(
    attached: Site,
    as_olga: Actor,
    as_alice: Actor,
) -> None:
    found(attached, "a", "b", default="b")
    row = StorageClass.objects.get(name="a")
    with pytest.raises(GpuaasError):
        storage_plain_choose(actor=as_alice, storage_class=row)
    assert plain(attached) == "b"
    assert storage_plain_choose(actor=as_olga, storage_class=row).plain
    assert plain(attached) == "a"
    assert not found(attached, "a", "b", default="b"), "the choice stands whatever the site's default is"
    assert plain(attached) == "a"
    storage_plain_choose(actor=as_olga, storage_class=StorageClass.objects.get(name="b"))
    assert plain(attached) == "b"


def test_a_class_that_is_gone_cannot_be_chosen(attached: Site, as_olga: Actor) -> None:
    found(attached, "a", "b", default="b")
    found(attached, "b", default="b")
    with pytest.raises(Conflict, match="no storage class a any more"):
        storage_plain_choose(actor=as_olga, storage_class=StorageClass.objects.get(name="a"))
    assert plain(attached) == "b"


def test_what_was_bought_of_a_class_that_became_plain_adds_up(attached: Site) -> None:
    found(attached, "a", "b", default="b")
    assert limits(attached, 10, a=5) == {"a": 5, "b": 10}
    found(attached, "a", "b", default="a")
    assert limits(attached, 10, a=5) == {"a": 15, "b": 0}
