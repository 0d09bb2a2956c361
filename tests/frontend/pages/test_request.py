"""The request form: it answers while it is typed, keeps what was typed when it refuses, and asks only once."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from billing.models import Discount
from frontend.formats import money
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit
from tenants.models import Project, User
from tests.frontend.markup import words

FORM = {
    "flavor": "h100.1",
    "count": "2",
    "storage_gib": "500",
    "lease": "28",
    "lease_ends_at": "",
    "name": "hindcast-v2",
    "members": "",
    "token": "one-press",
}


def post(client: Client, project: Project, **changes: Any) -> Any:
    return client.post(reverse("frontend:workspace_new", args=[project.slug]), {**FORM, **changes})


def answer(client: Client, project: Project, query: str = "", **changes: Any) -> str:
    url = reverse("frontend:workspace_answer", args=[project.slug]) + query
    response = client.post(url, {**FORM, **changes}, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_request_becomes_a_workspace(alice_at: Client, limited: Project) -> None:
    response = post(alice_at, limited)
    made = Workspace.objects.get()
    assert response.status_code == 302
    assert response["Location"].endswith(f"/{made.pk}/")
    assert (made.name, made.storage_gib, made.flavors.get().count) == ("hindcast-v2", 500, 2)
    assert [(row.user.username, row.role) for row in made.members.all()] == [("alice", "admin")]


def test_pressed_twice_it_is_one(alice_at: Client, limited: Project) -> None:
    first, second = post(alice_at, limited), post(alice_at, limited)
    assert first["Location"] == second["Location"]
    assert Workspace.objects.count() == 1


def test_who_goes_back_and_gives_another_name_gets_another(alice_at: Client, limited: Project) -> None:
    """The form that the browser shows again is the same one, with what made the first press one request."""
    first, second = post(alice_at, limited), post(alice_at, limited, name="hindcast-v3")
    assert first["Location"] != second["Location"]
    assert sorted(Workspace.objects.values_list("name", flat=True)) == ["hindcast-v2", "hindcast-v3"]
    assert post(alice_at, limited, name=" hindcast-v3 ")["Location"] == second["Location"]


def test_two_presses_that_meet_are_one(alice_at: Client, limited: Project) -> None:
    """The second has not heard of the first's token yet: the name that is taken tells."""
    first, second = post(alice_at, limited, token="a"), post(alice_at, limited, token="b")
    assert first["Location"] == second["Location"]


@pytest.mark.parametrize("name", ["Ähren", "Train", "x" * 41, "-a", "a b"])
def test_the_answer_tells_of_a_name_that_cannot_be(alice_at: Client, limited: Project, name: str) -> None:
    said = answer(alice_at, limited, name=name)
    assert "Use 1 to 40 lower-case letters" in beside(said, "name")
    assert "Use 1 to 40 lower-case letters" in button(said)
    assert "data-blocked" in said
    for fine in ("", "hindcast-v2"):
        assert "Use 1 to 40" not in answer(alice_at, limited, name=fine)


def beside(text: str, name: str) -> str:
    """What the answer puts under a field as its error."""
    found = text.partition(f'<p class="invalid-feedback" id="id_{name}-help" hx-swap-oob="true">')[2]
    return found.partition("</p>")[0]


def button(text: str) -> str:
    """Why the button is disabled."""
    return text.partition('class="g-reason"')[2].partition("</span>")[0]


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"lease": "date", "lease_ends_at": "2020-01-01T00:00"}, "lease_ends_at", "in the future"),
        ({"lease": "28", "lease_ends_at": "2020-01-01T00:00"}, "lease_ends_at", "in the future"),
        ({"lease": "date", "lease_ends_at": "2199-01-01T00:00"}, "lease_ends_at", "within 365 days"),
        ({"lease": "date"}, "lease_ends_at", "Choose the date and time"),
        ({"members": "bob, nobody-here"}, "members", "User nobody-here is not a member"),
        ({"members": "dora"}, "members", "User dora is only a viewer"),
        ({"storage_gib": "-1"}, "storage_gib", "from 0 to"),
    ],
)
def test_what_would_be_refused_is_said_beside_its_field_and_is_not_green(
    alice_at: Client, limited: Project, bob: User, dora: User, changes: dict[str, str], field: str, said: str
) -> None:
    text = answer(alice_at, limited, **changes)
    assert said in beside(text, field)
    assert "Available now" not in text
    assert "Available on more" not in text
    assert "data-blocked" in text
    assert beside(answer(alice_at, limited, members="bob"), field) == ""


def test_a_name_that_is_taken_is_said_while_it_is_typed(alice_at: Client, limited: Project) -> None:
    post(alice_at, limited)
    for said in (beside(answer(alice_at, limited), "name"), button(answer(alice_at, limited))):
        assert "already has a workspace called hindcast-v2" in said


def test_without_a_name_there_is_nothing_to_press(alice_at: Client, limited: Project) -> None:
    """Without scripts the button stays, and the server says what is missing beside its field."""
    text = answer(alice_at, limited, name="")
    assert "Available now" in text
    assert "Enter a name first." in text
    assert "data-blocked" in text
    assert "data-blocked" not in answer(alice_at, limited)
    page = words(alice_at.get(reverse("frontend:workspace_new", args=[limited.slug])))
    button = page[page.rindex("<button", 0, page.index("Create workspace")) :]
    assert " disabled" not in button.partition(">")[0]


def test_a_day_that_is_typed_is_the_choice(alice_at: Client, limited: Project) -> None:
    day = (clock.now() + timedelta(days=3)).replace(second=0, microsecond=0)
    typed = f"{day.astimezone(ZoneInfo('Europe/Berlin')):%Y-%m-%dT%H:%M}"
    assert "72 h" in answer(alice_at, limited, lease_ends_at=typed)
    post(alice_at, limited, lease="28", lease_ends_at=typed)
    assert Workspace.objects.get().lease_ends_at == day
    refused = post(alice_at, limited, token="b", name="", lease="28", lease_ends_at=typed)
    assert refused.context["form"]["lease"].value() == "date"


def test_the_month_beside_a_lease_ends_with_the_lease(noon: None, alice_at: Client, limited: Project) -> None:
    """A day of lease is 24 hours of the month, four weeks are what is left of it."""
    text = answer(alice_at, limited, lease="1")
    assert "In November (24 h)" in text
    assert money(Decimal("4.86") * 24) in text
    assert "720" not in text
    assert f"In November ({20 * 24 + 12} h)" in answer(alice_at, limited, lease="28")


def test_a_taken_name_is_said_beside_the_name(alice_at: Client, limited: Project) -> None:
    post(alice_at, limited, token="a")
    response = post(alice_at, limited, token="b", count="1")
    assert response.status_code == 422
    assert "already has a workspace called hindcast-v2" in str(response.context["form"].errors["name"])


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"count": "0"}, "count", "whole number from 1"),
        ({"count": "-3"}, "count", "whole number from 1"),
        ({"count": "1.5"}, "count", "whole number"),
        ({"count": "many"}, "count", "whole number"),
        ({"count": "9" * 30}, "count", "whole number"),
        ({"count": ""}, "count", "Enter a number"),
        ({"storage_gib": "-1"}, "storage_gib", "from 0 to"),
        ({"storage_gib": "x"}, "storage_gib", "whole number"),
        ({"name": "Ünïcode"}, "name", "lower-case"),
        ({"name": "a" * 300}, "name", "1 to 40"),
        ({"name": ""}, "name", "name"),
        ({"flavor": ""}, "flavor", "Choose a GPU"),
        ({"flavor": "nothing.like.it"}, "flavor", "no flavor"),
        ({"lease": "date"}, "lease_ends_at", "Choose the date"),
        ({"lease": "date", "lease_ends_at": "2020-01-01T00:00"}, "lease_ends_at", "future"),
        ({"lease": "date", "lease_ends_at": "yesterday"}, "lease_ends_at", "year-month-day"),
        ({"members": "charlie"}, "members", "not a member"),
    ],
)
def test_bad_input_keeps_the_form_and_says_why(
    alice_at: Client, limited: Project, changes: dict[str, str], field: str, said: str
) -> None:
    response = post(alice_at, limited, **changes)
    assert response.status_code == 422
    assert said in str(response.context["form"].errors[field])
    text = response.content.decode()
    if "storage_gib" not in changes:
        assert 'value="500"' in text
    assert not Workspace.objects.exists()


def test_over_the_limit_is_said_beside_the_count(alice_at: Client, limited: Project) -> None:
    response = post(alice_at, limited, count="9")
    said = str(response.context["form"].errors["count"])
    assert response.status_code == 422
    assert "Project weather-lm may hold at most 8" in said
    assert "Held: 0. Requested: 9. Available: 8." in said
    assert "Held: 0. Requested: 9. Available: 8." in answer(alice_at, limited, count="9"), (
        "the same while it is typed"
    )


def test_storage_without_room_is_said_beside_the_storage(alice_at: Client, limited: Project) -> None:
    """Before it is sent and after; the count stays as it is."""
    Limit.objects.filter(project=limited, resource="storage").update(hard=300)
    said = answer(alice_at, limited)
    assert "weather-lm may hold 300 GiB more" in beside(said, "storage_gib")
    assert "data-blocked" in said
    assert "weather-lm may hold" not in beside(said, "count")
    form = post(alice_at, limited).context["form"]
    assert list(form.errors) == ["storage_gib"]


def test_a_placement_that_its_cloud_refuses_is_red_before_it_is_sent(
    alice_at: Client, limited: Project, site: Site
) -> None:
    Site.objects.filter(pk=site.pk).update(driver="sandbox-cloud")
    said = answer(alice_at, limited, placement="rack")
    assert "places machines itself" in beside(said, "placement")
    assert "places machines itself" in button(said)
    assert "places machines itself" not in answer(alice_at, limited, placement="")
    assert list(post(alice_at, limited, placement="rack").context["form"].errors) == ["placement"]


def test_the_answer_grants_with_price_and_capacity(noon: None, alice_at: Client, limited: Project) -> None:
    text = answer(alice_at, limited)
    assert "Available now" in text
    assert "2 × H100 SXM" in text
    assert "€4.80" in text  # 2 × 2.40 per hour
    assert "(492 h)" in text
    assert money(Decimal("4.80") * 492) in text
    assert money(Decimal("0.06") * 492) in text  # 500 GiB × 0.00012
    assert money(Decimal("4.86") * 492) in text  # together
    assert "672 h" in text  # four weeks
    assert "0 + 2 of 8" in text
    assert "no other GPUs" in text


def test_the_answer_refuses_with_the_limit_and_a_way_out(
    alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    text = answer(alice_at, limited, count="7")
    assert "weather-lm may hold at most 8 H100 SXM 80 GB" in text
    assert "Held: 2. Requested: 7. Available: 6." in text
    assert "Set count to 6" in text
    assert "1 more than weather-lm may hold" in text
    assert "data-blocked" in text


def test_take_sets_the_count(alice_at: Client, limited: Project) -> None:
    text = answer(alice_at, limited, "?take=8", count="11")
    assert "Available now" in text
    assert 'id="count-field" hx-swap-oob="true"' in text
    assert 'value="8"' in text


def test_more_than_one_node_is_said_before(alice_at: Client, limited: Project) -> None:
    Limit.objects.filter(resource="gpu:h100-sxm-80gb").update(hard=None)
    text = answer(alice_at, limited, count="9")
    assert "on more than one node" in text
    assert "No node has more than 8 that are not in use" in text


def test_what_the_site_lacks_is_not_called_a_limit(alice_at: Client, limited: Project) -> None:
    Limit.objects.filter(resource="gpu:h100-sxm-80gb").update(hard=None)
    text = answer(alice_at, limited, count="17")
    assert "ber-1 has 16 H100 SXM 80 GB left" in text
    assert "exceeds the capacity" in text


@pytest.mark.parametrize("count", ["", "x", "0", "-1", "1e9", "9" * 40, "１"])  # noqa: RUF001
def test_half_typed_numbers_are_answered_calmly(alice_at: Client, limited: Project, count: str) -> None:
    assert "Check your input" in answer(alice_at, limited, count=count)


def test_without_prices_it_still_answers(alice_at: Client, project: Project, site: Any) -> None:
    text = answer(alice_at, project)
    assert "weather-lm has no limit set for H100 SXM 80 GB" in text
    assert "no price yet" in text


def test_the_answer_says_what_the_flavor_gives_and_where_pods_go(
    alice_at: Client, limited: Project, h100: Flavor
) -> None:
    Flavor.objects.filter(pk=h100.pk).update(exclusive_cpus=True)
    text = answer(alice_at, limited, placement="rack")
    assert "exclusive cores" in text
    assert "Pods are placed in one rack when there is room" in text
    assert "Pods are placed" not in answer(alice_at, limited, placement="")
    assert "Pods are placed" not in answer(alice_at, limited, placement="moon")


def test_the_placement_is_kept_or_refused_beside_its_field(alice_at: Client, limited: Project) -> None:
    refused = post(alice_at, limited, placement="moon")
    assert refused.status_code == 422
    assert "Choose one of the placements." in str(refused.context["form"].errors["placement"])
    post(alice_at, limited, placement="nvlink-domain")
    assert Workspace.objects.get().placement == "nvlink-domain"


def test_a_count_that_is_no_number_is_said_at_the_count(alice_at: Client, limited: Project) -> None:
    text = answer(alice_at, limited, count="1.5")
    assert "Enter a whole number from 1 to 1,000." in beside(text, "count")


def test_the_answer_counts_what_the_organization_pays(alice_at: Client, limited: Project) -> None:
    Discount.objects.create(
        organization=limited.organization,
        basis_points=5000,
        valid_from=clock.now() - timedelta(hours=1),
        created_by="olga",
    )
    text = answer(alice_at, limited)
    assert "€2.40" in text  # half of 2 × 2.40
    assert "€4.80" not in text


def test_an_order_at_a_site_that_is_not_confirmed_says_that_it_waits(
    alice_at: Client, limited: Project, site: Site
) -> None:
    waits = "waits until an operator has confirmed the site."
    assert waits not in answer(alice_at, limited)
    Site.objects.update(confirmed=False)
    assert f"What is ordered at {site.slug} {waits}" in answer(alice_at, limited)
