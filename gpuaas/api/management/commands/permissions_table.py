"""`manage.py permissions_table` writes docs/permissions.md from the tables themselves, so that the document stays
correct."""

import re
import textwrap
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from gpuaas.api.permissions import Need, need_of
from gpuaas.api.schema import OPERATION
from tenants.roles import (
    ORGANIZATION_PERMISSIONS,
    PLATFORM_PERMISSIONS,
    PROJECT_PERMISSIONS,
    TOKEN_SCOPES,
    Permission,
)

HEAD = """# Who may do what

Made from `tenants/roles.py` and `gpuaas/api/permissions.py` by `manage.py permissions_table`; do not edit by hand.

A role in an organization applies in all its projects. Somebody without any role gets 404, never 403. An API token can
do what both its scopes and the present roles of its creator allow, in its one project. Access to what belongs to
oneself needs no particular role, but a token still needs the scope.

Roles in a project are viewer, member and admin; in an organization owner and billing; on the platform auditor and
operator. The last column says whether a token can have the permission as a scope.
"""
OPERATIONS = """
## What each operation of the API needs

A role needs all permissions listed; a token needs them as scopes, too. "no token": only for signed-in people. Numbers
refer to the notes at the end. The tests call each operation in every role and with a token of every scope, and compare
the answers with these tables.
"""
ROOTS = ("/projects/{project}", "/organizations/{organization}", "/platform")
NOTE_LENGTH = len("no token")
METHODS = ("get", "post", "put", "patch", "delete")
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


def permissions_table() -> str:
    return HEAD + "\n" + _roles() + OPERATIONS + _operations()


def _roles() -> str:
    roles = {
        str(role): held
        for table in (PROJECT_PERMISSIONS, ORGANIZATION_PERMISSIONS, PLATFORM_PERMISSIONS)
        for role, held in table.items()
        if role
    }
    columns = ["permission", "means", *roles, "scope"]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for permission in Permission:
        held = ["yes" if permission in allowed else "" for allowed in roles.values()]
        scope = "yes" if permission in TOKEN_SCOPES else ""
        cells = [f"`{permission.value}`", str(permission.label), *held, scope]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _operations() -> str:
    """A table for each root of addresses, then the notes to which the rows of all of them refer."""
    notes: dict[str, int] = {}
    parts = [_table(root, notes) for root in ("", *ROOTS)]
    listed = [textwrap.fill(f"{n}. {text}", 120, subsequent_indent="    ") for text, n in notes.items()]
    return "".join(parts) + "\n### Notes\n\n" + "\n".join(listed) + "\n"


def _table(root: str, notes: dict[str, int]) -> str:
    lines = [f"### {f'Below {root}' if root else 'At the top'}", ""]
    lines += ["| operation | address | needs | note |", "|---|---|---|---|"]
    for name, method, address in _addresses():
        need = need_of(name, method)
        if need is None or _root(address) != root:
            continue
        text = _text(need)
        if len(text) > NOTE_LENGTH:
            text = str(notes.setdefault(text, len(notes) + 1))
        below = f"…{address.removeprefix(root)}" if root else address
        lines.append(f"| `{name}` | {method} {below} | {_needed(need)} | {text} |")
    return "\n" + "\n".join(lines) + "\n"


def _root(address: str) -> str:
    return next((root for root in ROOTS if address.startswith(f"{root}/")), "")


def _addresses() -> Iterator[tuple[str, str, str]]:
    """Each operation with its method and address, in the order of the URL conf."""
    from gpuaas.api.v1.urls import urlpatterns

    for row in urlpatterns:
        pattern: Any = row
        route = PARAMETER.sub(r"{\1}", str(pattern.pattern))
        for method in METHODS:
            if handler := getattr(pattern.callback.view_class, method, None):
                yield getattr(handler, OPERATION), method.upper(), f"/{route}"


def _needed(need: Need) -> str:
    return ", ".join(f"`{permission.value}`" for permission in need.permissions)


def _text(need: Need) -> str:
    if need.permissions and not need.cut:
        return need.besides.strip() if need.for_tokens else "no token"
    return str(need)


class Command(BaseCommand):
    help = "Write docs/permissions.md; with --check, only say whether it is current."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        path = Path(settings.BASE_DIR) / "docs" / "permissions.md"
        if options["check"]:
            if not path.exists() or path.read_text(encoding="utf-8") != permissions_table():
                raise CommandError("docs/permissions.md is out of date: run manage.py permissions_table")
            return
        path.parent.mkdir(exist_ok=True)
        path.write_text(permissions_table(), encoding="utf-8")
