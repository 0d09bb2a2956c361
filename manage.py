#!/usr/bin/env python3
"""Django's command line; development settings unless DJANGO_SETTINGS_MODULE says otherwise."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.demo")
    from django.core.management import execute_from_command_line

    from gpuaas.core import scrape

    scrape.children_share(sys.argv[1:])
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
