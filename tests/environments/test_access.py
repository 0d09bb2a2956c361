"""Who may open an environment: policies within what its kind allows, and keys of one that is public."""

from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Invalid, NotFound
from gpuaas.environments.definition import definition_read
from gpuaas.environments.door import passes
from gpuaas.environments.door.passes import (
    Verdict,
    admissions,
    admissions_by_key,
    key_use,
    keys_note,
    passes_forget,
)
from gpuaas.environments.models import DoorKey, DoorPass, Environment
from gpuaas.environments.services import (
    environment_access_set,
    environment_clone,
    environment_create,
    environment_stop,
    key_create,
    key_revoke,
)
from gpuaas.environments.services.access import KEY_FORM, KEYS_MOST, hashed, is_guest, open_require
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.members import member_remove, member_set
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.environments import stage
from tests.factories.tenants import ProjectFactory, ProjectMembershipFactory, UserFactory
from tests.lasting import lasting
from tests.workspaces.test_races import at_once

pytestmark = pytest.mark.django_db
ALL = ["workspace", "private", "organization", "public"]


@pytest.fixture
@lasting
def notebook(as_alice: Actor, workspace: Workspace, bob: User) -> Environment:
    """Of alice's, of a kind that allows all; bob may edit the workspace that it is in."""
    member_set(actor=as_alice, workspace=workspace, username=bob.username, role="edit")
    stage.kind(access=ALL)
    return stage.ready(as_alice, workspace, gpus=0)


@pytest.fixture
def neighbour(project: Project) -> User:
    """Of another project of the same organization."""
    user: User = UserFactory.create(username="nina")
    ProjectMembershipFactory.create(
        project=ProjectFactory.create(organization=project.organization, slug="ice"), user=user, role="viewer"
    )
    return user


def set_to(row: Environment, access: str, actor: Actor) -> Environment:
    found = environment_access_set(actor=actor, environment=row, access=access)
    return Environment.objects.select_related("workspace__project__organization", "created_by").get(
        pk=found.pk
    )


def may(row: Environment, *users: User) -> dict[str, str]:
    """What each is answered at the portal's entrance."""
    found = {}
    for user in users:
        try:
            open_require(actor_for(user=user), row)
            found[user.username] = "opens"
        except GpuaasError as error:
            found[user.username] = error.code
    return found


def test_a_kind_allows_the_workspace_or_its_creator_unless_it_says_more() -> None:
    assert definition_read(stage.DOCUMENT).access == ("workspace", "private")
    assert definition_read({**stage.DOCUMENT, "access": ["public"]}).access == ("public",)
    wrongs: list[Any] = [[], ["everybody"], ["public", "public"], "public", [1], {}]
    for wrong in wrongs:
        with pytest.raises(Invalid) as error:
            definition_read({**stage.DOCUMENT, "access": wrong})
        assert "access" in str(error.value.fields)


def test_an_order_chooses_within_what_its_kind_allows(as_alice: Actor, workspace: Workspace) -> None:
    slug = stage.kind(access=["private", "organization"]).slug
    asked: dict[str, Any] = {"actor": as_alice, "workspace": workspace, "kind": slug, "gpus": 0, "vcpus": 1}
    assert environment_create(**asked, name="one").access == "private"
    two = environment_create(**asked, name="two", access="organization")
    assert environment_clone(actor=as_alice, environment=two, name="three").access == "organization"
    for wrong in ("public", "workspace", "everybody", ""):
        with pytest.raises(Invalid) as refused:
            environment_create(**asked, name="four", access=wrong)
        assert list(refused.value.fields) == ["access"]
        with pytest.raises(Invalid):
            environment_access_set(actor=as_alice, environment=two, access=wrong)
    assert Environment.objects.count() == 3
    created = AuditEntry.objects.filter(action="environment.create").latest("pk")
    assert (created.after or {})["access"] == "organization"


def test_who_opens_it_by_each_policy(
    notebook: Environment, alice: User, bob: User, charlie: User, olga: User, neighbour: User, as_alice: Actor
) -> None:
    people = (alice, bob, charlie, olga, neighbour)
    usual = {"alice": "opens", "bob": "opens", "olga": "opens", "charlie": "not_found", "nina": "not_found"}
    assert may(notebook, *people) == usual
    row = set_to(notebook, "private", as_alice)
    assert may(row, *people) == {**usual, "bob": "forbidden", "olga": "forbidden"}
    row = set_to(notebook, "organization", as_alice)
    assert may(row, *people) == {**usual, "nina": "opens"}
    assert [is_guest(actor_for(user=user), row) for user in (bob, neighbour)] == [False, True]
    row = set_to(notebook, "public", as_alice)
    assert may(row, *people) == usual


def test_only_its_creator_changes_a_private_one(
    notebook: Environment, as_alice: Actor, as_bob: Actor
) -> None:
    set_to(notebook, "private", as_bob)
    for access in ("workspace", "private", "public"):
        with pytest.raises(Forbidden, match="only alice can open it"):
            environment_access_set(actor=as_bob, environment=notebook, access=access)
    assert set_to(notebook, "workspace", as_alice).access == "workspace"


def test_an_outsider_and_a_viewer_change_nothing(
    notebook: Environment, as_charlie: Actor, neighbour: User, bob: User, as_alice: Actor
) -> None:
    set_to(notebook, "organization", as_alice)
    member_remove(actor=SYSTEM, workspace=notebook.workspace, username=bob.username)
    for actor, refusal in (
        (as_charlie, NotFound),
        (actor_for(user=neighbour), NotFound),
        (actor_for(user=bob), Forbidden),
    ):
        with pytest.raises(refusal):
            environment_access_set(actor=actor, environment=notebook, access="public")
        with pytest.raises(refusal):
            key_create(actor=actor, environment=notebook, name="mine")


def test_a_key_is_shown_once_and_kept_as_its_hash(notebook: Environment, as_alice: Actor) -> None:
    with pytest.raises(Conflict, match="public with a key"):
        key_create(actor=as_alice, environment=notebook, name="ci")
    set_to(notebook, "public", as_alice)
    for wrong in ("", " ", "a\nb", "x" * 101):
        with pytest.raises(Invalid):
            key_create(actor=as_alice, environment=notebook, name=wrong)
    key, raw = key_create(actor=as_alice, environment=notebook, name="ci")
    assert KEY_FORM.fullmatch(raw)
    assert (key.prefix, key.secret_hash) == (raw.split("_")[1], hashed(raw))
    assert raw.split("_")[2] not in str([*DoorKey.objects.values(), *AuditEntry.objects.values()])
    assert DoorKey.objects.count() == 1
    for _ in range(2):
        key_revoke(actor=as_alice, key=key)
    told = AuditEntry.objects.filter(action__startswith="environment.key").order_by("pk")
    assert [entry.action for entry in told] == ["environment.key_create", "environment.key_revoke"]
    assert key.revoked_at


def test_keys_end_for_good_where_it_is_no_longer_public(notebook: Environment, as_alice: Actor) -> None:
    set_to(notebook, "public", as_alice)
    _, raw = key_create(actor=as_alice, environment=notebook, name="ci")
    label = notebook.label or ""
    assert key_use(label=label, key=raw)
    set_to(notebook, "workspace", as_alice)
    entry = AuditEntry.objects.filter(action="environment.access").latest("pk")
    assert (entry.before, entry.after) == ({"access": "public"}, {"access": "workspace", "keys_revoked": 1})
    set_to(notebook, "public", as_alice)
    assert key_use(label=label, key=raw) is None
    assert {each.verdict for each in admissions(DoorPass.objects.all())} == {Verdict.ENDED}
    assert {each.verdict for each in admissions_by_key(DoorKey.objects.all())} == {Verdict.ENDED}
    assert passes_forget() == 1


def test_a_key_opens_its_own_environment_alone(
    notebook: Environment, as_alice: Actor, workspace: Workspace
) -> None:
    set_to(notebook, "public", as_alice)
    _, raw = key_create(actor=as_alice, environment=notebook, name="ci")
    other = set_to(stage.ready(as_alice, workspace, "other", gpus=0), "public", as_alice)
    assert key_use(label=other.label or "", key=raw) is None
    wrong = raw[:-1] + ("y" if raw.endswith("x") else "x")
    assert key_use(label=notebook.label or "", key=wrong) is None
    assert not DoorPass.objects.exists()


def test_by_one_key_and_of_one_person_there_is_a_bounded_number_of_passes(
    notebook: Environment, as_alice: Actor, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The looks at all of them decide how soon others are cut."""
    monkeypatch.setattr(passes, "BY_KEY_MOST", 3)
    monkeypatch.setattr(passes, "OF_PERSON_MOST", 2)
    set_to(notebook, "public", as_alice)
    label, keys = (
        notebook.label or "",
        [key_create(actor=as_alice, environment=notebook, name=name)[1] for name in "ab"],
    )

    def enter(user: User) -> str | None:
        about: dict[str, Any] = {
            "session_key": "s",
            "browser": hashed("b"),
            "actor": actor_for(user=user),
            "user": user,
        }
        ticket = passes.ticket_write(environment=notebook, **about)
        return passes.ticket_use(label=label, ticket=ticket, browser="b")

    cookies = [key_use(label=label, key=keys[1]), enter(bob)]
    cookies += [key_use(label=label, key=keys[0]) for _ in range(5)][-3:]
    cookies += [enter(alice) for _ in range(4)][-2:]
    left = set(DoorPass.objects.values_list("cookie", flat=True))
    assert left == {hashed(each or "") for each in cookies}
    told = AuditEntry.objects.filter(action="environment.open", token_prefix=keys[0].split("_")[1])
    assert told.count() == 3, "nor does one without an account fill the audit log"


def test_what_is_worth_what_costs_a_constant_number_of_queries(
    notebook: Environment, as_alice: Actor
) -> None:
    set_to(notebook, "public", as_alice)
    keys = [key_create(actor=as_alice, environment=notebook, name=f"ci {number}") for number in range(3)]
    costs = []
    for key, raw in keys:
        assert key_use(label=notebook.label or "", key=raw)
        with CaptureQueriesContext(connection) as queries:
            found = [
                *admissions(DoorPass.objects.all()),
                *admissions_by_key(DoorKey.objects.filter(pk__lte=key.pk)),
            ]
        assert {(each.verdict, each.user, each.key != "") for each in found} == {(Verdict.ADMITTED, "", True)}
        costs.append(len(queries))
    assert set(costs) == {2}  # nobody's passes: no people to look up
    environment_stop(actor=as_alice, environment=notebook)
    assert {each.verdict for each in admissions_by_key(DoorKey.objects.all())} == {Verdict.ASLEEP}


def test_opening_is_told_once_and_not_for_each_request(notebook: Environment, as_alice: Actor) -> None:
    set_to(notebook, "public", as_alice)
    key, raw = key_create(actor=as_alice, environment=notebook, name="ci")
    opened = AuditEntry.objects.filter(action="environment.open")
    with time_machine.travel(stage.START, tick=False) as travel:
        for _ in range(3):
            keys_note([hashed(raw)])
        assert opened.count() == 1
        first = DoorKey.objects.get().last_used_at
        assert first == stage.START
        travel.shift(120)
        keys_note([hashed(raw)])
        assert opened.count() == 1
        assert DoorKey.objects.get().last_used_at != first
        travel.shift(2 * 3600)
        keys_note([hashed(raw)])
        assert opened.count() == 2
    entry = opened.latest("pk")
    assert (entry.actor, entry.actor_id, entry.token_prefix) == ("holder of a key", None, key.prefix)
    assert (entry.target_id, entry.project_id) == (str(notebook.pk), notebook.project_id)


@pytest.mark.django_db(transaction=True)
def test_of_four_at_once_for_the_last_key_one_gets_it(notebook: Environment, as_alice: Actor) -> None:
    set_to(notebook, "public", as_alice)
    for number in range(KEYS_MOST - 1):
        key_create(actor=as_alice, environment=notebook, name=f"ci {number}")
    answers = at_once(4, lambda _: key_create(actor=as_alice, environment=notebook, name="last"))
    assert answers == {"done": 1, "conflict": 3}
    assert DoorKey.objects.count() == KEYS_MOST


@pytest.mark.django_db(transaction=True)
def test_no_key_outlives_the_policy(notebook: Environment, as_alice: Actor) -> None:
    """Of keys that are made while it is closed, none is left that opens it."""
    set_to(notebook, "public", as_alice)

    def work(number: int) -> None:
        if number:
            key_create(actor=as_alice, environment=notebook, name=f"ci {number}")
        else:
            environment_access_set(actor=as_alice, environment=notebook, access="workspace")

    at_once(4, work)
    assert not DoorKey.objects.filter(revoked_at=None).exists()
