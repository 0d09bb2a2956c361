"""Pages of errors give back the connections that they needed, as every other page does."""

from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.db import connection
from django.test import Client

from tenants.models import User
from tests.frontend.pages.browsing import until
from tests.frontend.pages.server import served

OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def connections_of_others() -> int:
    with connection.cursor() as cursor:
        cursor.execute(OTHERS)
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_page_that_does_not_exist_keeps_no_connection(alice: User) -> None:
    client = Client()
    client.force_login(alice)
    cookie = f"sessionid={client.cookies['sessionid'].value}"

    def asked(number: int) -> tuple[int, str]:
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(f"{address}/no/such/page/{number}/", headers={"Cookie": cookie}), timeout=60)
        return refused.value.code, refused.value.read().decode()

    with served() as address, ThreadPoolExecutor(4) as browsers:
        for status, page in browsers.map(asked, range(12)):
            assert status == 404
            assert "alice" in page, "it is drawn for who asks"
        until(lambda: connections_of_others() == 0, "connections are left open")
