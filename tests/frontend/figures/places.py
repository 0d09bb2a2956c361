"""A figure, its selector and its places; and how what stands there is read: pages, JSON, CSV."""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.core import mail
from django.test import Client
from django.urls import reverse

from frontend.formats import money, number, price
from frontend.presenters.money import hours_of
from tenants.actors import Actor
from tests.frontend.figures import reading
from tests.frontend.figures.scene import H100, Scene

Show = Callable[[Any], str]


@dataclass(frozen=True)
class Readers:
    """alice owns the organization, olga operates; browsers, and programs by session. metrics: Prometheus."""

    alice: Client
    olga: Client
    metrics: Client
    as_alice: Actor
    as_olga: Actor


@dataclass(frozen=True)
class Place:
    """read: what stands there; show: how the figure is written there."""

    name: str
    read: Callable[[Readers, Scene], str]
    show: Show


@dataclass(frozen=True)
class Figure:
    name: str
    selector: Callable[[Readers, Scene], Any]
    places: tuple[Place, ...]


def page(client: Client, name: str, *args: object, **query: str) -> str:
    answer = client.get(reverse(f"frontend:{name}", args=args), query)
    assert answer.status_code == 200, (name, answer.status_code)
    return answer.content.decode()


def json_of(client: Client, path: str, *pointer: str | int) -> str:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, (path, answer.content)
    found = answer.json()
    for part in pointer:
        found = found[part]
    return str(found)


def quote_now(client: Client, path: str, key: str) -> str:
    """A change to what it is already: `now` is what runs."""
    answer = client.post(f"/api/v1/{path}/quote", {"storage_gib": 100}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return str(answer.json()["now"][key])


def csv_sum(client: Client, name: str, column: str, *args: object, **query: str) -> str:
    answer = client.get(reverse(f"frontend:{name}", args=args), query)
    rows = list(csv.reader(io.StringIO(answer.getvalue().decode())))
    assert len(set(rows[0])) == len(rows[0]), rows[0]
    at = rows[0].index(column)
    return str(sum(Decimal(row[at]) for row in rows[1:]))


def csv_rows(client: Client, path: str, **query: str) -> list[dict[str, str]]:
    answer = client.get(path, query)
    assert answer.status_code == 200, (path, answer.status_code)
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def limits_csv(client: Client, column: str, resource: str = H100) -> str:
    rows = csv_rows(client, reverse("frontend:operator_limits_csv"))
    return next(row[column] for row in rows if row["project"] == "weather-lm" and row["resource"] == resource)


def rows_of(client: Client, path: str, **query: str) -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/{path}", query)
    assert answer.status_code == 200, (path, answer.content)
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def expected(html: str, budget: str) -> str:
    """`… spent, … expected` of a budget's row."""
    said = reading.cell(html, budget, "Spent and expected")
    return said.partition(" spent, ")[2].partition(" expected")[0]


def mail_said(budget: str) -> str:
    """`60.03 of 1.00 EUR are spent`: of a budget's mail, its first figure."""
    body = next(one.body for one in mail.outbox if f"The budget {budget} " in str(one.body))
    return str(body).partition("reached 100%: ")[2].partition(" of ")[0]


def hours(seconds: Any) -> str:
    """GPU-seconds in hours, as pages show them."""
    return number(hours_of(seconds), 2)


def eur_price(value: Any) -> str:
    return price(value, "EUR")


def eur(value: Any) -> str:
    return money(value, "EUR")


def both(show: Callable[[Any, str], str]) -> Show:
    """Of every currency by itself."""
    return lambda found: " + ".join(show(amount, code) for code, amount in sorted(found.items()))
