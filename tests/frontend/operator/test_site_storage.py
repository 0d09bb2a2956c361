"""The storage classes of a site, as operators see and sell them."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.providers.base import ObservedStorageClass
from tests.frontend.markup import words

pytestmark = pytest.mark.django_db

URL = "/operator/sites/at/ber-1/storage/"


def found(site: Site, *names: str, default: str = "standard") -> dict[str, StorageClass]:
    seen = [ObservedStorageClass(name, f"{name}.example", default=name == default) for name in names]
    storage_classes_write(site=site, found=seen, at=clock.now())
    return {row.name: row for row in StorageClass.objects.filter(site=site)}


def page(client: Client) -> str:
    answer = client.get(URL)
    assert answer.status_code == 200
    return words(answer)


def test_it_lists_them_and_says_where_there_are_none(site: Site, olga_at: Client) -> None:
    assert "The site reports no storage classes." in page(olga_at)
    found(site, "fast", "standard")
    text = page(olga_at)
    assert "fast.example" in text
    assert "No plain storage" not in text


def test_a_class_is_sold_by_a_short_name_and_retired(site: Site, olga_at: Client) -> None:
    rows = found(site, "fast", "standard")
    answer = olga_at.post(f"{URL}sell/", {"name": "fast", "slug": "fast-ber-1"}, follow=True)
    assert "fast is sold as fast-ber-1." in words(answer)
    assert (StorageClass.objects.get(name="fast").slug, StorageClass.objects.get(name="fast").state) == (
        "fast-ber-1",
        "active",
    )
    olga_at.post(f"{URL}{rows['fast'].pk}/retire/")
    assert StorageClass.objects.get(name="fast").state == "retired"
    assert "was sold as fast-ber-1" in page(olga_at)
    answer = olga_at.post(f"{URL}sell/", {"name": "fast", "slug": "other"})
    assert answer.status_code == 422
    assert "past usage keeps that name" in words(answer)
    assert olga_at.post(f"{URL}sell/", {"name": "fast"}).status_code == 302


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"name": "fast", "slug": ""}, "Enter a short name"),
        ({"name": "fast", "slug": "Fast One"}, "lower-case letters"),
        ({"name": "fast", "slug": "taken"}, "already exists"),
        ({"name": "standard", "slug": "standard"}, "no such class that can be sold"),
        ({"name": "made-up", "slug": "a"}, "no such class that can be sold"),
        ({"slug": "a"}, "Choose a class"),
        ({"name": "fast", "slug": "a" * 41}, "40 characters"),
    ],
)
def test_what_cannot_be_sold_is_refused_beside_its_field(
    site: Site, olga_at: Client, sent: dict[str, str], sentence: str
) -> None:
    rows = found(site, "fast", "standard", "slow")
    StorageClass.objects.filter(pk=rows["slow"].pk).update(slug="taken", state="active")
    answer = olga_at.post(f"{URL}sell/", sent)
    assert answer.status_code == 422
    assert sentence in words(answer)
    assert StorageClass.objects.get(name="fast").state == "draft"


def test_plain_storage_is_chosen_where_the_site_has_no_default(site: Site, olga_at: Client) -> None:
    rows = found(site, "a", "b", default="")
    assert "No plain storage" in page(olga_at)
    olga_at.post(f"{URL}{rows['b'].pk}/plain/")
    assert "No plain storage" not in page(olga_at)
    assert StorageClass.objects.get(name="b").chosen


def test_one_that_is_sold_cannot_become_plain_storage(site: Site, olga_at: Client) -> None:
    rows = found(site, "fast", "standard")
    olga_at.post(f"{URL}sell/", {"name": "fast", "slug": "fast"})
    answer = olga_at.post(f"{URL}{rows['fast'].pk}/plain/", follow=True)
    assert "stop selling it first" in words(answer)
    assert StorageClass.objects.get(name="standard").plain


def test_the_number_of_queries_does_not_depend_on_the_classes(site: Site, olga_at: Client) -> None:
    counts = []
    for names in (("standard",), tuple(f"class-{number}" for number in range(20))):
        found(site, *names)
        olga_at.get(URL)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            olga_at.get(URL)
        counts.append(len(queries))
    assert counts[0] == counts[1]
