"""`manage.py operator_create`: the first account, which makes all others on its pages."""

import getpass
import sys
from itertools import chain
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpuaas.core.errors import Invalid
from tenants.actors import SYSTEM
from tenants.roles import PlatformRole
from tenants.services import user_create


class Command(BaseCommand):
    help = "Create an operator. Asks for the password, or reads it from a line of standard input."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--email", required=True)

    def handle(self, *_args: Any, username: str, email: str, **_options: Any) -> None:
        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        if not password:
            raise CommandError("an operator needs a password")
        try:
            user_create(
                actor=SYSTEM,
                username=username,
                email=email,
                platform_role=PlatformRole.OPERATOR,
                password=password,
            )
        except Invalid as error:
            raise CommandError(
                " ".join([error.message, *chain.from_iterable(error.fields.values())])
            ) from error
        self.stdout.write(f"{username} is an operator and can sign in.")
