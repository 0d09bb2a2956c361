"""`manage.py permissions_table`: docs/permissions.md from the roles, so that the document cannot be wrong."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from tenants.roles import (
    ORGANIZATION_PERMISSIONS,
    PLATFORM_PERMISSIONS,
    PROJECT_PERMISSIONS,
    TOKEN_SCOPES,
    Permission,
)

HEAD = """# Who may do what

Made from `tenants/roles.py` by `manage.py permissions_table`; do not edit by hand.

A role of an organization holds in all its projects. Who has no role at all finds nothing there: 404, never 403.
An API token can do what its scopes and its maker's roles at that moment both allow, in its one project.
"""


def permissions_table() -> str:
    roles = {
        **{f"project {role}": held for role, held in PROJECT_PERMISSIONS.items()},
        **{f"organization {role}": held for role, held in ORGANIZATION_PERMISSIONS.items()},
        **{role: held for role, held in PLATFORM_PERMISSIONS.items() if role},
    }
    columns = ["permission", "means", *roles, "token scope"]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for permission in Permission:
        held = ["yes" if permission in allowed else "" for allowed in roles.values()]
        scope = "yes" if permission in TOKEN_SCOPES else ""
        cells = [f"`{permission.value}`", str(permission.label), *held, scope]
        lines.append(f"| {' | '.join(cells)} |")
    return HEAD + "\n" + "\n".join(lines) + "\n"


class Command(BaseCommand):
    help = "Write docs/permissions.md; with --check only say whether it is current."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *_args: Any, **options: Any) -> None:
        path = Path(settings.BASE_DIR) / "docs" / "permissions.md"
        if options["check"]:
            if not path.exists() or path.read_text(encoding="utf-8") != permissions_table():
                raise CommandError("docs/permissions.md is not current: run manage.py permissions_table")
            return
        path.parent.mkdir(exist_ok=True)
        path.write_text(permissions_table(), encoding="utf-8")
