"""To be somebody's own never stands in for a permission: `Actor.owns` says whose it is, `own=` asks for the rest."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_house import ROOMS, ROOT, functions, tracked

ASKED = {"request", "self", "here", "place", "reader", "view"}  # whose `user` is who asks
# Nothing is allowed by these: who started a draft that is shared; that one need not name oneself among the members.
TELLS = {
    "frontend/views/operator/rate_cards.py",
    "frontend/views/request_check.py",
    "frontend/views/requests.py",
}
# What an actor holds is asked by its methods; who builds actors or asks of a person's session alone reads the roles.
ROLES = {"platform", "organizations", "projects", "scopes", "token_project"}
BUILDERS = {"tenants/actors.py", "tenants/selectors.py", "gpuaas/live/audience.py"}
# Rows are found by whose they are after the scope was asked for.
BY_OWNER = {
    ("tokens_for", "tenants/selectors.py"),
    ("tokens_of", "tenants/selectors.py"),
    ("keys_for", "gpuaas/workspaces/machines/keys.py"),
    ("admin_require", "gpuaas/workspaces/services/rows.py"),
    ("is_of_organization", "gpuaas/environments/selectors.py"),
    ("cluster_credential", "gpuaas/clusters/services/access.py"),
    ("_pressed_twice", "frontend/views/requests.py"),
    ("_pressed_twice", "frontend/views/cluster_orders.py"),
}


def code() -> Iterator[tuple[str, Path]]:
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if name.endswith(".py") and name.startswith(tuple(f"{room}/" for room in ROOMS)):
            yield name, path


def is_of_actor(node: ast.AST, *names: str) -> bool:
    """`actor.<name>`, `self.actor.<name>`, `here.actor.<name>`."""
    if not isinstance(node, ast.Attribute) or node.attr not in names:
        return False
    base = node.value
    return (isinstance(base, ast.Name) and base.id == "actor") or (
        isinstance(base, ast.Attribute) and base.attr == "actor"
    )


def is_who_asks(node: ast.AST) -> bool:
    """`actor.user_id`, `actor.name`, and the person of a request, a view or a place: `request.user`, `self.user.pk`."""
    if is_of_actor(node, "user_id", "name"):
        return True
    if isinstance(node, ast.Call):  # str(request.user.pk)
        return any(is_who_asks(each) for each in node.args)
    if isinstance(node, ast.Attribute) and node.attr in {"pk", "id", "username", "email"}:
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "user" and owner_of(node.value) in ASKED


def owner_of(node: ast.AST) -> str:
    """`request` of `request`, `self.request` and `here.request`."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def is_nothing(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def test_nobody_compares_the_actor_with_an_owner() -> None:
    found = {
        name
        for name, path in code()
        if name != "tenants/actors.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Compare)
        and any(is_who_asks(side) for side in (node.left, *node.comparators))
        and not any(is_nothing(side) for side in node.comparators)
    }
    assert found == TELLS, "use actor.owns(…), and tell the permission function that it is their own"


@pytest.mark.parametrize(
    "text",
    [
        "row.user_id == actor.user_id",
        "self.actor.name != row.created_by",
        "row.user == request.user",
        "self.request.user.pk == row.user_id",
        "str(here.user.id) in owners",
        "row.user_id in {1, 2} or self.user.username == row.name",
    ],
)
def test_every_spelling_of_who_asks_is_found(text: str) -> None:
    sides = [
        each
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        for each in (node.left, *node.comparators)
    ]
    assert any(map(is_who_asks, sides))
    assert not is_who_asks(ast.parse("row.user.pk", mode="eval").body)


def test_nobody_reads_an_actors_roles_past_the_scopes() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, path in code()
        if name not in BUILDERS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and is_of_actor(node, *ROLES)
    ]
    assert not found, "ask on_project, on_organization, on_platform, holds_somewhere or is_token"


def test_rows_are_found_by_their_owner_only_where_the_scope_was_asked_for() -> None:
    found = {
        (function.name, name)
        for name, path in code()
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"filter", "exclude"}
        and any(is_who_asks(each.value) for each in node.keywords)
    }
    assert found == BY_OWNER
