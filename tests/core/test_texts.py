import json

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.core.texts import storable

BAD, GOOD = "a\x00b\ud800c", "ab?c"


@given(text=st.text(st.characters(exclude_categories=())))
def test_a_text_becomes_one_that_can_be_kept(text: str) -> None:
    found = storable(text)
    assert "\x00" not in found
    assert storable(found) == found.encode().decode() == found


@pytest.mark.django_db
def test_the_database_keeps_it() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::text, %s::jsonb ->> 0", [storable(BAD), json.dumps([storable(BAD)])])
        assert cursor.fetchone() == (GOOD, GOOD)
