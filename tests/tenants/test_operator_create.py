"""The first operator, from a command line: without one, nobody could make an account."""

import io

import pytest
from django.core.management import CommandError, call_command

from tenants.models import AuditEntry, User

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def create(monkeypatch: pytest.MonkeyPatch, *, typed: str, username: str = "olga") -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    said = io.StringIO()
    call_command("operator_create", username, email=f"{username}@example.org", stdout=said)
    return said.getvalue()


def test_it_signs_in_and_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert create(monkeypatch, typed=f"{PASSWORD}\n") == "olga is an operator and can sign in.\n"
    olga = User.objects.get()
    assert (olga.username, olga.email, olga.platform_role) == ("olga", "olga@example.org", "operator")
    assert olga.check_password(PASSWORD)
    assert AuditEntry.objects.filter(action="user.create").exists()


@pytest.mark.parametrize(
    ("typed", "words"), [("", "needs a password"), ("short\n", "at least 12 characters")]
)
def test_without_a_good_password_there_is_none(
    monkeypatch: pytest.MonkeyPatch, typed: str, words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        create(monkeypatch, typed=typed)
    assert not User.objects.exists()


def test_a_name_that_is_taken_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    create(monkeypatch, typed=f"{PASSWORD}\n")
    with pytest.raises(CommandError, match="already exists"):
        create(monkeypatch, typed=f"{PASSWORD}\n")
