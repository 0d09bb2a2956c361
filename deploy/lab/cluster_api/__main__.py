"""`python -m deploy.lab.cluster_api up`: see README.md beside this file."""

import argparse
import shlex
import sys

from deploy.lab.cli import Cli, Options
from deploy.lab.cluster_api.lab import Lab
from deploy.lab.cluster_api.settings import DEFAULT_STATE_DIR


def _up(lab: Lab, options: Options) -> None:
    lab.up(openstack=options.openstack)
    print(f"export KUBECONFIG={shlex.quote(str(lab.kubeconfig))}")


def _options(name: str, command: argparse.ArgumentParser) -> None:
    if name in {"build", "up"}:
        command.add_argument("--openstack", action="store_true", help="with OpenStack's provider")


CLI = Cli(
    module="deploy.lab.cluster_api",
    make=lambda folder: Lab(state_dir=folder),
    state_dir=DEFAULT_STATE_DIR,
    does={"build": lambda lab, options: lab.build(openstack=options.openstack), "up": _up},
    options=_options,
    example="core or bootstrap",
)

if __name__ == "__main__":
    sys.exit(CLI.main())
