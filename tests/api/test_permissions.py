"""Every operation with every role and with a token of every scope: the answers are those of `gpuaas.api.permissions`.

What is refused has written nothing; what is allowed is done in a savepoint, so that all meet the same world.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import pytest_django
from django.core.management import call_command
from django.db import transaction

from gpuaas.api.permissions import NEEDS, For, Need, need_of
from gpuaas.api.schema import OPERATION
from gpuaas.clusters.models import ClusterGrant
from gpuaas.core import clock
from gpuaas.workspaces.models import AccessGrant, WorkspaceMember
from tenants.roles import TOKEN_SCOPES, Permission
from tests.apart import each_apart
from tests.api.addresses import Address, addresses
from tests.api.askers import EVERYTHING, NOTHING, Asker, Held, people, person, token, tokens
from tests.api.caller import Answer
from tests.api.furnished import NODE, World, furnished
from tests.api.test_outsiders import BODIES, QUERIES
from tests.api.writes import writes
from tests.factories.tenants import OrganizationMembershipFactory, UserFactory

BODIES_HERE: dict[str, Any] = {
    "workspace_grant_revoke": {},
    "platform_node_check_create": {"node": NODE},
}
OTHERS = {"workspace_grant_revoke": {"username": "bob"}, "cluster_grant_revoke": {"username": "bob"}}
EVERYBODY = frozenset({"everybody"})
# Whose own it is what the stage holds; what is asked of oneself is everybody's.
OWN = {
    "key_list": EVERYBODY,
    "key_get": frozenset({"alice"}),
    "key_remove": frozenset({"alice"}),
    "token_list": EVERYBODY,
    "token_get": frozenset({"bob"}),
    "token_revoke": frozenset({"bob"}),
    "project_member_remove": frozenset({"bob"}),
    "workspace_grant_revoke": EVERYBODY,
    "cluster_grant_revoke": EVERYBODY,
}
ADMINS = frozenset({"alice"})  # of the workspace: she asked for it
# Tenants see their limits: they are not told that there is nothing, but that operators set them.
SEEN = {"platform_project_limit_set": "project", "platform_organization_limit_set": "organization"}
MONEY = {
    "quote",
    "cost",
    "unit_price",
    "per_hour",
    "per_month",
    "to_lease_end",
    "amount",
    "spent",
    "forecast",
}


@dataclass(frozen=True)
class Case:
    operation: str
    address: Address
    method: str
    body: Any
    own: frozenset[str] = frozenset()

    @property
    def need(self) -> Need:
        need = need_of(self.operation, self.method)
        assert need is not None, f"{self.operation} has no line in NEEDS"
        return need

    @property
    def place(self) -> str:
        if self.operation in SEEN:
            return SEEN[self.operation]
        if self.address.name.startswith("platform"):
            return "platform"
        return next((each for each in ("organization", "project") if each in self.address.parameters), "")

    def is_own(self, asker: Asker) -> bool:
        return self.own == EVERYBODY or asker.name in self.own

    def is_admin(self, asker: Asker) -> bool:
        return "workspace" in self.address.parameters and asker.name in ADMINS

    def ask(self, asker: Asker, stage: dict[str, Any]) -> Answer:
        named = stage | stage["elsewhere"].get(self.operation, {})
        path = self.address.path(**named) + QUERIES.get(self.address.name, "")
        return asker.caller.ask(self.method, path, self.body)


def cases() -> Iterator[Case]:
    for address in addresses():
        for method in address.methods:
            name = getattr(address.handler(method), OPERATION)
            body = BODIES_HERE.get(name, BODIES.get((address.name, method)))
            yield Case(name, address, method, body, OWN.get(name, frozenset()))
            if name in OTHERS:
                yield Case(name, address, method, OTHERS[name], frozenset({"bob"}))


AT_MOST = 4  # a test has one stage and is over in seconds


def parts() -> dict[str, list[Case]]:
    """Operations of one module of the API, a few in each part: `workspaces.members`, `workspaces.members-2`."""
    modules: dict[str, list[Case]] = defaultdict(list)
    for case in cases():
        modules[case.address.view.__module__.removeprefix("gpuaas.api.v1.")].append(case)
    return {
        f"{module}-{start // AT_MOST + 1}" if start else module: found[start : start + AT_MOST]
        for module, found in modules.items()
        for start in range(0, len(found), AT_MOST)
    }


PARTS = parts()


def held_by(asker: Asker, case: Case) -> Held:
    """Roles there, widened where it is their own, cut to the scopes."""
    roles = {"platform": asker.platform, "organization": asker.platform | asker.above}
    held = roles.get(case.place, asker.here)
    if held and case.need.own:
        held |= set(case.need.permissions)
    if held and case.need.more and case.is_admin(asker):
        held |= {case.need.more}
    return held if asker.scopes is None else held & asker.scopes


def expected(case: Case, asker: Asker) -> int:
    """401, 403, 404, or 200 for everything else."""
    need, is_token = case.need, asker.scopes is not None
    if need.who is For.MACHINES:
        return 401
    if need.who is For.ANYBODY or need.cut:
        return 200
    if not case.place and not is_token:
        return 404 if case.own and not case.is_own(asker) else 200
    wanted, held = set(need.permissions), held_by(asker, case)
    if need.more and not case.is_own(asker):
        wanted.add(need.more)
    if need.own and not case.is_own(asker) and not need.more and not wanted <= asker.here:
        unseen = not held or (case.operation in {"token_get", "token_revoke"} and wanted <= held)
        return 404 if unseen else 403
    if wanted <= held and not (is_token and need.who is For.PEOPLE):
        return 200
    if case.place == "platform":
        return 403 if Permission.PLATFORM_VIEW in held else 404
    return 403 if held or not case.place else 404


@dataclass(frozen=True)
class Stage(World):
    """signed_in: people of every role. made: tokens of the maker of the things, of a teammate, and of somebody who has no role any
    more, by their sets of scopes in some case. above, platform: the tokens that ask for what is there."""

    signed_in: list[Asker]
    made: list[Asker]
    above: list[Asker]
    platform: list[Asker]


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker) -> Iterator[Stage]:
    """bob is a member of the project, may edit in alice's workspace, and holds a credential there. stage["elsewhere"]: path
    parameters of single operations. Everybody who asks is made once for all of them."""
    with furnished(django_db_blocker) as made:
        made.project.memberships.filter(user=made.bob).update(role="member")
        workspace, cluster = made.stage["workspace"], made.stage["cluster"]
        WorkspaceMember.objects.create(workspace_id=workspace, user=made.bob, role="edit")
        now = clock.now()
        lasts = {"issued_at": now, "expires_at": now + timedelta(hours=1)}
        AccessGrant.objects.create(workspace_id=workspace, user=made.bob, issued_by="bob", **lasts)
        ClusterGrant.objects.create(cluster_id=cluster, user=made.bob, **lasts)
        grace = UserFactory.create(username="grace")
        OrganizationMembershipFactory.create(
            organization=made.project.organization, user=grace, role="billing"
        )
        member = {"username": "grace"}
        made.stage["elsewhere"] = {"organization_member_get": member, "organization_member_remove": member}
        yield with_askers(made)


def with_askers(made: World) -> Stage:
    project, cast = made.project, (made.alice, made.bob, made.charlie)
    extra = {scopes for case in cases() for scopes in telling(case)}
    few = (NOTHING, EVERYTHING)
    return Stage(
        **vars(made),
        signed_in=[*people(project), *(person(user, project) for user in cast)],
        made=[one for user in cast for one in tokens(user, project, extra)],
        above=[token(made.alice, project, scopes) for scopes in few],
        platform=[token(made.olga, project, scopes) for scopes in few],
    )


def found(case: Case, asker: Asker, stage: dict[str, Any], savepoint: str) -> str:
    """What is wrong with the answer, "" for nothing. What was written is undone."""
    wanted = expected(case, asker)
    with writes() as written:
        answer = case.ask(asker, stage)
    if written or transaction.get_rollback():
        transaction.savepoint_rollback(savepoint)
    status = answer.status if answer.status in {401, 403, 404} else 200
    if answer.status == 429 and case.need.who is For.MACHINES:
        return ""
    if status != wanted or answer.status >= 500:
        return f"{wanted} was expected, {answer.status} came: {answer.json if answer.status >= 400 else ''}"
    if status == 200:
        return too_much(case, asker, answer)
    return f"it was refused and wrote {written}" if written else ""


def too_much(case: Case, asker: Asker, answer: Answer) -> str:
    """What a token's scopes do not show: lists that are cut to them, money beside other things."""
    held = held_by(asker, case)
    if asker.scopes is None or answer.status >= 400:
        return ""
    if case.need.cut and answer.json["results"] and not set(case.need.permissions) <= held:
        return "it shows what the token may not see"
    if case.place == "project" and Permission.BILLING_VIEW not in held and answer.json:
        return f"it shows money: {', '.join(shown)}" if (shown := sorted(money_in(answer.json))) else ""
    return ""


def money_in(said: Any) -> set[str]:
    if isinstance(said, list):
        return {name for each in said for name in money_in(each)}
    if not isinstance(said, dict):
        return set()
    own = {name for name in MONEY & said.keys() if said[name] is not None}
    return own | {name for each in said.values() for name in money_in(each)}


# Whose tokens are made of each scope alone. More scopes never allow less, so the fast tier is content with those of none, of all, of
# what an operation needs, and of all but one of what it needs: whatever it would take in its place is among them.
MAKERS: dict[str, tuple[str, ...]] = {"some": (), "every": ("alice", "bob", "charlie")}


def telling(case: Case) -> set[Held]:
    """The sets of scopes that can tell whether an operation asks for what its need says."""
    need = case.need
    exact = {frozenset(need.permissions)}
    if need.more:
        exact.add(frozenset((*need.permissions, need.more)))
    return {NOTHING, TOKEN_SCOPES, *exact, *(TOKEN_SCOPES - {one} for scopes in exact for one in scopes)}


def those_of(made: list[Asker], part: str, singly: tuple[str, ...]) -> list[Asker]:
    """The tokens that can tell something of the part, and those of each scope alone of these makers."""
    wanted = {scopes for case in PARTS[part] for scopes in telling(case)}
    alone = {frozenset({scope}) for scope in TOKEN_SCOPES}
    return [one for one in made if one.scopes in wanted or (one.name in singly and one.scopes in alone)]


@pytest.mark.django_db
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("makers", MAKERS)
def test_the_answers_are_the_table(makers: str, part: str, subtests: pytest.Subtests, world: Stage) -> None:
    """People of every role; tokens of the maker of the things, of a teammate, and of somebody who has no role any more; on
    the platform an operator's."""
    singly = MAKERS[makers]
    made = those_of(world.made, part, singly)
    askers = {"": made, "project": made, "organization": world.above, "platform": world.platform}

    def asking(case: Case) -> list[Asker]:
        tokens_of_it, enough = askers[case.place], telling(case)
        few = tokens_of_it is made and not singly
        return [asker for asker in tokens_of_it if not few or asker.scopes in enough]

    def check(case: Case) -> None:
        everybody, savepoint = (*world.signed_in, *asking(case)), transaction.savepoint()
        answers = [(asker, found(case, asker, world.stage, savepoint)) for asker in everybody]
        wrong = [f"{asker}: {text}" for asker, text in answers if text]
        assert not wrong, "\n".join(wrong)

    each_apart(subtests, ((case.operation, (case,)) for case in PARTS[part]), check)


def test_every_operation_has_its_line() -> None:
    of_platform = {case.operation for case in cases() if case.address.name.startswith("platform")}
    assert {name for name in of_platform if not name.startswith("platform_")} == set()
    assert {case.operation for case in cases()} - of_platform == set(NEEDS)


def test_the_document_is_current() -> None:
    call_command("permissions_table", "--check")
