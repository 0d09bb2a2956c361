"""Names of logins: whatever the portal calls a person, Linux and Slurm take it, and it is nobody else's."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.clusters.logins import FOREIGN, LAST_UID, LOGIN_MAX, RESERVED, UIDS, login_name
from gpuaas.providers.openstack.clusters import slurm_logins

USERNAMES = st.one_of(
    st.text(max_size=150),
    st.sampled_from(sorted(RESERVED)),
    st.emails(),
    st.from_regex(r"[a-z0-9._@+-]{1,60}", fullmatch=True),
)


@given(st.lists(USERNAMES, max_size=40))
def test_all_people_of_a_project_get_names_that_linux_takes(usernames: list[str]) -> None:
    given_names: list[str] = []
    for username in usernames:
        given_names.append(login_name(username, given_names))
    assert len(set(given_names)) == len(given_names), "nobody shares a name"
    for name in given_names:
        assert re.fullmatch(r"[a-z][a-z0-9-]*", name)
        assert not name.endswith("-")
        assert len(name) <= LOGIN_MAX
        assert name not in RESERVED
        assert not name.startswith(FOREIGN)
        assert slurm_logins.LOGIN_FORM.fullmatch(name), "the head takes what the portal gives"


@pytest.mark.parametrize(
    ("username", "name"),
    [
        ("alice", "alice"),
        ("Anna.Meier@uni.example", "anna-meier"),
        ("jörg", "jorg"),
        ("straße", "strasse"),
        ("山田", "user"),
        ("42", "u-42"),
        ("root", "u-root"),
        ("Slurm", "u-slurm"),
        ("systemd-network", "u-systemd-network"),
        ("nvidia", "u-nvidia"),
        ("x" * 80, "x" * 24),
        ("--", "user"),
    ],
)
def test_a_name_is_as_near_as_it_can_be(username: str, name: str) -> None:
    assert login_name(username, ()) == name


def test_a_number_follows_where_a_name_is_taken() -> None:
    assert login_name("anna_meier", ["anna-meier", "anna-meier-2"]) == "anna-meier-3"
    assert login_name("daemon", ["u-daemon"]) == "u-daemon-2"


def test_the_head_and_the_portal_agree_on_the_numbers() -> None:
    assert (slurm_logins.UIDS, slurm_logins.LAST_UID) == (UIDS, LAST_UID)
    assert slurm_logins.GROUP_ID < UIDS
    assert slurm_logins.GROUP in RESERVED
