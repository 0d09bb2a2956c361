"""Wrong passwords and codes: by account and address, slowly, told, lifted. Nobody's mistakes shut out anybody else."""

import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from allauth.mfa.totp.internal.auth import (
    TOTP,
    generate_totp_secret,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.core import mail
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, TooManyTries
from gpuaas.core.request import RequestInfo, current_request
from tenants.actors import Actor
from tenants.models import AuditEntry, Tries, User
from tenants.services import tries_forget, tries_lift, try_return, try_take
from tenants.services.tries import ACCOUNT, ADDRESS, PAIR

RIGHT, WRONG = "correct horse battery", "wrong"
DOOR = "/accounts/login/"
OFFICE, HOME, STRANGE = "192.0.2.1", "192.0.2.2", "198.51.100.7"


def tried(login: str, password: str = WRONG, *, at: str = OFFICE) -> Any:
    return Client(REMOTE_ADDR=at).post(DOOR, {"login": login, "password": password})


def wrong(login: str, times: int, *, at: str = OFFICE) -> list[int]:
    return [tried(login, at=at).status_code for _ in range(times)]


def is_in(answer: Any) -> bool:
    return bool(answer.status_code == 302 and answer["Location"] == "/")


def guessed(login: str, *, at: str) -> bool:
    """Whether a wrong password was judged at all; without a page around it."""
    token = current_request.set(RequestInfo(ip=at))
    try:
        try_take(login=login)
    except TooManyTries:
        return False
    finally:
        current_request.reset(token)
    return True


@pytest.fixture
def later() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(clock.now(), tick=False) as traveller:
        yield traveller


def test_one_persons_mistakes_shut_out_nobody_else(alice: User, bob: User) -> None:
    assert wrong("bob", 7) == [200] * 5 + [429] * 2
    assert is_in(tried("alice", RIGHT))
    assert tried("bob", RIGHT).status_code == 429
    assert is_in(tried("bob", RIGHT, at=HOME))


def test_a_stranger_shuts_nobody_out_at_their_own_address(alice: User) -> None:
    assert is_in(tried("alice", RIGHT))
    for number in range(60):
        guessed("alice", at=f"198.51.100.{number}")
    assert is_in(tried("alice", RIGHT))


def test_a_guess_from_many_addresses_is_slowed(alice: User, later: time_machine.Traveller) -> None:
    done = [guessed("alice", at=f"198.51.100.{number}") for number in range(30)]
    assert done == [True] * ACCOUNT.free + [False] * 10
    assert tried("alice", RIGHT, at=HOME).status_code == 429
    later.shift(timedelta(minutes=1, seconds=1))
    assert is_in(tried("alice", RIGHT, at=HOME))  # at a new place, once the first minute is over


def test_many_names_at_one_address_are_slowed_and_who_is_known_there_is_not(alice: User, bob: User) -> None:
    assert is_in(tried("alice", RIGHT))
    assert wrong("alice", 2) == [200] * 2
    done = [guessed(f"made-up-{number}", at=OFFICE) for number in range(ADDRESS.free + 5)]
    assert done == [True] * ADDRESS.free + [False] * 5
    assert is_in(tried("alice", RIGHT))
    assert tried("bob", RIGHT).status_code == 429
    assert is_in(tried("bob", RIGHT, at=HOME))


def test_the_wait_doubles_up_to_an_hour(alice: User, later: time_machine.Traveller) -> None:
    assert is_in(tried("alice", RIGHT))  # known here, so that only the pair counts
    wrong("alice", PAIR.free - 1)
    waits = []
    for _ in range(9):
        assert tried("alice").status_code == 200
        row = Tries.objects.get(network=OFFICE, user=alice)
        assert row.until is not None
        waits.append(round((row.until - clock.now()) / timedelta(minutes=1)))
        assert wrong("alice", 2) == [429, 429]
        later.shift(row.until - clock.now() + timedelta(seconds=1))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_day_of_guessing_is_few_guesses(alice: User, later: time_machine.Traveller) -> None:
    let_through = 0
    for _ in range(24 * 12):
        let_through += guessed("alice", at=STRANGE) + guessed("alice@example.org", at=STRANGE)
        later.shift(timedelta(minutes=5))
    assert let_through < 40


def test_name_and_address_of_mail_have_one_budget(alice: User) -> None:
    for login in ("alice", "ALICE", "alice@example.org", "Alice@Example.ORG", "alice"):
        assert tried(login).status_code == 200
    for login in ("alice", "alice@example.org", "aLiCe@example.org"):
        assert tried(login, RIGHT).status_code == 429


def test_a_made_up_name_is_told_what_a_real_one_is(alice: User) -> None:
    told = []
    for name in ("alice", "nobody"):
        answers = [tried(name, at=HOME) for _ in range(7)]
        told.append(
            [
                (one.status_code, re.sub(r"csrf\S+ value=\S+|[\d:]{8}|value=\S+", "", one.content.decode()))
                for one in answers
            ]
        )
    assert told[0] == [(code, text.replace("nobody", "alice")) for code, text in told[1]]
    assert "Too many tries" in told[0][-1][1]


def test_made_up_names_push_nothing_out_and_are_forgotten(alice: User, later: time_machine.Traveller) -> None:
    wrong("alice", 6)
    for number in range(400):
        guessed(f"made-up-{number}", at=f"198.51.100.{number % 200}")
    assert tried("alice", RIGHT).status_code == 429
    later.shift(timedelta(days=1, hours=1))
    tries_forget()
    assert not Tries.objects.exists()


def test_who_waits_is_told_until_when_and_what_else_to_do(alice: User, later: time_machine.Traveller) -> None:
    later.move_to(clock.now().replace(hour=14, minute=5, second=0, microsecond=0))
    wrong("alice", 5)
    answer = tried("alice", RIGHT)
    text = " ".join(re.sub(r"<[^>]+>", "", answer.content.decode()).split())
    assert answer.status_code == 429
    assert answer["Retry-After"] == "60"
    assert "The next try is possible at 14:06:00 UTC, in 1 minute." in text
    assert "Set a new password" in text
    assert "Ask an operator of the portal to end the wait." in text


def test_a_refused_try_lengthens_nothing(alice: User, later: time_machine.Traveller) -> None:
    wrong("alice", 5)
    assert not any(guessed("alice", at=OFFICE) for _ in range(20))
    later.shift(timedelta(seconds=61))
    assert is_in(tried("alice", RIGHT))


def test_who_is_in_begins_anew(alice: User) -> None:
    for _ in range(2):
        wrong("alice", 4)
        assert is_in(tried("alice", RIGHT))
    assert wrong("alice", 5) == [200] * 5


def test_own_sign_ins_do_not_buy_guesses_at_others(
    alice: User, bob: User, later: time_machine.Traveller
) -> None:
    codes = []
    for _ in range(10):
        codes += wrong("alice", 1, at=STRANGE)
        tried("bob", RIGHT, at=STRANGE)
    assert codes == [200] * 5 + [429] * 5


def test_the_second_factor_is_guessed_no_more_often(alice: User, later: time_machine.Traveller) -> None:
    """Also by somebody who knows the password, and types it again between the guesses."""
    secret = generate_totp_secret()
    TOTP.activate(alice, secret)
    codes = []
    for number in range(8):
        client = Client(REMOTE_ADDR=STRANGE)
        codes.append(client.post(DOOR, {"login": "alice", "password": RIGHT}).status_code)
        if codes[-1] == 302:
            codes.append(client.post(reverse("mfa_authenticate"), {"code": f"00000{number}"}).status_code)
    assert codes == [302, 200] * 5 + [429] * 3
    later.shift(timedelta(seconds=61))
    client = Client(REMOTE_ADDR=STRANGE)
    client.post(DOOR, {"login": "alice", "password": RIGHT})
    code = hotp_value(secret, next(yield_hotp_counters_from_time()))
    assert client.post(reverse("mfa_authenticate"), {"code": f"{code:06}"}).status_code == 302
    assert client.get(reverse("frontend:account")).status_code == 200


@pytest.mark.parametrize("door", ["account_change_password", "account_reauthenticate"])
def test_a_stolen_session_guesses_no_password(alice: User, door: str) -> None:
    client = Client(REMOTE_ADDR=OFFICE)
    client.post(DOOR, {"login": "alice", "password": RIGHT})
    sent = {"oldpassword": WRONG, "password": WRONG, "password1": "x" * 20, "password2": "x" * 20}
    assert [client.post(reverse(door), sent).status_code for _ in range(7)] == [200] * 5 + [429] * 2
    assert tried("alice", RIGHT).status_code == 429


def test_addresses_of_one_network_are_one(alice: User) -> None:
    codes = [tried("alice", at=f"2001:db8:1:2::{number}").status_code for number in range(7)]
    assert codes == [200] * 5 + [429] * 2
    assert is_in(tried("alice", RIGHT, at="2001:db8:1:3::1"))


def test_without_an_address_one_signs_in(alice: User) -> None:
    assert wrong("alice", 2, at="") == [200, 200]
    assert is_in(tried("alice", RIGHT, at=""))


def test_a_new_password_by_mail_ends_the_wait(alice: User) -> None:
    for number in range(30):
        guessed("alice", at=f"198.51.100.{number}")
    assert tried("alice", RIGHT, at=HOME).status_code == 429
    client, new = Client(REMOTE_ADDR=HOME), "another horse of another stable"
    client.post(reverse("account_reset_password"), {"email": "alice@example.org"})
    link = re.search(r"http://\S+(/accounts/password/reset/key/\S+)", str(mail.outbox[-1].body))
    assert link
    form = client.get(link[1])["Location"]
    assert client.post(form, {"password1": new, "password2": new}).status_code == 302
    for number in range(30):
        guessed("alice", at=f"203.0.113.{number}")
    assert is_in(tried("alice", new, at=HOME))


def test_a_mailbox_gives_no_more_guesses_at_the_second_factor(alice: User) -> None:
    """Each new password by mail would be five more codes, without end."""
    TOTP.activate(alice, generate_totp_secret())
    client, codes = Client(REMOTE_ADDR=STRANGE), []
    for number in range(7):
        new = f"{number} more horses of another stable"
        client.post(reverse("account_reset_password"), {"email": "alice@example.org"})
        link = re.findall(r"http://\S+(/accounts/password/reset/key/\S+)", str(mail.outbox[-1].body))[0]
        client.post(client.get(link)["Location"], {"password1": new, "password2": new})
        if tried("alice", new, at=STRANGE).status_code == 429:
            codes.append(429)
            continue
        guess = Client(REMOTE_ADDR=STRANGE)
        guess.post(DOOR, {"login": "alice", "password": new})
        codes.append(guess.post(reverse("mfa_authenticate"), {"code": f"00000{number}"}).status_code)
    assert codes == [200] * 5 + [429] * 2


def test_the_page_of_a_wait_promises_a_second_factor_nothing(alice: User) -> None:
    reset, offer = reverse("account_reset_password"), "If your account has no second factor, you can also"
    wrong("alice", PAIR.free)
    page = tried("alice", RIGHT).content.decode()
    assert page.index("Ask an operator") < page.index(offer) < page.index(reset)
    TOTP.activate(alice, generate_totp_secret())
    guess = Client(REMOTE_ADDR=HOME)
    guess.post(DOOR, {"login": "alice", "password": RIGHT})
    codes = [guess.post(reverse("mfa_authenticate"), {"code": f"00000{number}"}) for number in range(6)]
    assert codes[-1].status_code == 429
    page = codes[-1].content.decode()
    assert "Ask an operator of the portal to end the wait." in page
    assert reset not in page
    assert offer not in page


def test_an_operator_sees_who_waits_and_ends_it(alice: User, olga: User) -> None:
    operator = Client(REMOTE_ADDR=HOME)
    operator.force_login(olga)
    page = reverse("frontend:operator_people")
    assert "Waiting after wrong passwords" not in operator.get(page).content.decode()
    wrong("alice", 6)
    wrong("nobody", 6, at=STRANGE)
    text = operator.get(page).content.decode()
    assert "Waiting after wrong passwords" in text
    assert OFFICE in text
    assert STRANGE not in text  # where nobody's account waits
    row = Tries.objects.get(user=alice, network=OFFICE)
    door = reverse("frontend:operator_tries_lift", args=[row.pk])
    assert operator.post(door)["Location"] == page
    entry = AuditEntry.objects.get(action="tries.lift")
    assert (entry.actor, entry.target_name, entry.ip) == ("olga", "alice", HOME)
    assert is_in(tried("alice", RIGHT))
    assert operator.post(door)["Location"] == page  # pressed twice
    assert AuditEntry.objects.filter(action="tries.lift").count() == 1


def test_nobody_else_ends_a_wait(alice: User, as_alice: Actor) -> None:
    wrong("alice", 5)
    with pytest.raises(NotFound):
        tries_lift(actor=as_alice, tries=Tries.objects.get(user=alice, network=OFFICE))
    assert tried("alice", RIGHT).status_code == 429


def test_too_many_mails_are_refused_in_our_words(alice: User, settings: Settings) -> None:
    from tenants.signin import RATE_LIMITS

    settings.ACCOUNT_RATE_LIMITS = RATE_LIMITS
    client = Client(REMOTE_ADDR=OFFICE)
    answers = [
        client.post(reverse("account_reset_password"), {"email": "alice@example.org"}) for _ in range(4)
    ]
    assert [one.status_code for one in answers] == [302, 302, 302, 429]
    assert "This was asked for too often" in answers[-1].content.decode()
    assert is_in(tried("alice", RIGHT))


@pytest.mark.django_db(transaction=True)
def test_many_at_once_are_no_more_than_one_after_the_other() -> None:
    User.objects.create_user("alice", "alice@example.org", RIGHT)
    outcomes: list[str] = []
    start = threading.Barrier(12)

    def one(number: int) -> None:
        current_request.set(RequestInfo(ip=OFFICE))
        start.wait()
        try:
            try_take(login="alice" if number % 2 else "alice@example.org")
            outcomes.append("taken")
        except TooManyTries:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["taken"] * 5


def test_what_was_right_is_given_back_and_nothing_else(alice: User) -> None:
    for _ in range(4):
        try_take(login="alice")
    try_return(try_take(login="alice"))
    assert {row.failures for row in Tries.objects.all()} == {4}
    assert not Tries.objects.exclude(until=None).exists()
