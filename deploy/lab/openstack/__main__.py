"""`python -m deploy.lab.openstack up`: see README.md beside this file."""

import argparse
import shlex
import sys
from pathlib import Path

from deploy.lab.cli import PROGRAMS, Cli, Options
from deploy.lab.errors import LabError
from deploy.lab.openstack.lab import Lab
from deploy.lab.openstack.settings import DEFAULT_PORT_BASE, DEFAULT_STATE_DIR, LIMIT_MODELS


def _up(lab: Lab, options: Options) -> None:
    lab.up(
        fresh=options.fresh,
        port_base=options.port_base,
        topology=options.topology,
        limit_model=options.limit_model,
        balancing=options.balancing,
        machines=options.machines,
        debug=options.debug,
    )
    _env(lab)


def _env(lab: Lab) -> None:
    """Lines for `eval` in a shell."""
    if not lab.clouds.exists():
        raise LabError(f"there is no lab in {lab.state_dir}; `up` makes one")
    print(f"export OS_CLIENT_CONFIG_FILE={shlex.quote(str(lab.clouds))}")
    print("export OS_CLOUD=lab")


def _options(name: str, command: argparse.ArgumentParser) -> None:
    if name != "up":
        return
    command.add_argument("--fresh", action="store_true", help="forget all projects, servers and images")
    command.add_argument(
        "--port-base", type=int, help=f"first of 14 ports; default {DEFAULT_PORT_BASE} or the next free"
    )
    command.add_argument("--topology", type=Path, help="hosts and GPUs, as in topology.json")
    command.add_argument(
        "--limit-model", choices=LIMIT_MODELS, help="does a child project's limit count in its parent's?"
    )
    command.add_argument("--balancing", action="store_true", default=None, help="with Octavia")
    command.add_argument(
        "--machines", action=argparse.BooleanOptionalAction, help="servers boot from their user data (root)"
    )
    command.add_argument("--debug", action=argparse.BooleanOptionalAction, help="debug logs of every service")


CLI = Cli(
    module="deploy.lab.openstack",
    make=lambda folder: Lab(state_dir=folder),
    state_dir=DEFAULT_STATE_DIR,
    does={**PROGRAMS, "up": _up, "env": lambda lab, _: _env(lab)},
    options=_options,
    example="keystone, rabbitmq or compute-gpu-a100-1",
)

if __name__ == "__main__":
    sys.exit(CLI.main())
