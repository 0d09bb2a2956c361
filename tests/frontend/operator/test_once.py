"""Money is booked once, however often the answer to one question is sent: pressed twice, at once, or after going back."""

import re
import threading
from collections import Counter

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from billing.models import LedgerEntry
from tenants.models import Project, User
from tests.frontend.markup import words
from tests.frontend.operator.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = "The button was pressed before, and this was recorded then"


def asked(client: Client, record: str) -> dict[str, str]:
    """What the button of the question sends."""
    page = words(client.post(record, {"amount": "25", "note": "bank"}))
    dialog = page.split('id="sure"')[1].split("</form>")[0]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', dialog))


@pytest.fixture
def record(project: Project) -> str:
    return reverse("frontend:operator_payment_record", args=[project.organization.slug])


def test_an_answer_that_is_sent_again_books_nothing(olga: User, record: str) -> None:
    olga_at = signed_in(olga)
    answer = asked(olga_at, record)
    assert olga_at.post(record, answer).status_code == 302
    again = olga_at.post(record, answer)
    assert (again.status_code, BEFORE in words(again)) == (422, True)
    assert LedgerEntry.objects.filter(kind="prepaid").count() == 1
    another = asked(olga_at, record)
    assert another["once"] != answer["once"]
    assert olga_at.post(record, another).status_code == 302
    assert LedgerEntry.objects.filter(kind="prepaid").count() == 2


def test_two_presses_at_once_book_one(olga: User, record: str) -> None:
    olga_at = signed_in(olga)
    answer, gate = asked(olga_at, record), threading.Barrier(4)
    statuses: list[int] = []

    def press() -> None:
        client = Client()
        client.cookies.update(olga_at.cookies)
        gate.wait(10)
        statuses.append(client.post(record, answer).status_code)
        connection.close()

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Counter(statuses) == {302: 1, 422: 3}
    assert LedgerEntry.objects.filter(kind="prepaid").count() == 1
