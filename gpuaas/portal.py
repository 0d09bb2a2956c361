"""The command line of an installed portal, `gpuaas-portal`: Django's commands and ours, in production settings.

`web`, `worker`, `scheduler`, `meter` and `door` run until SIGTERM; `manage.py` of a checkout has the same commands.
"""

import os
import sys

from django.core.exceptions import ImproperlyConfigured


def main() -> None:
    """Ends with 2 and the variable's name on standard error if a setting is missing or unsafe."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.production")
    from django.core.management import execute_from_command_line

    from gpuaas import __version__
    from gpuaas.core import scrape

    if sys.argv[1:] in (["--version"], ["version"]):
        sys.stdout.write(f"{__version__}\n")
        return
    try:
        scrape.children_share(sys.argv[1:])
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"gpuaas-portal: {error}\n")
        sys.exit(2)
