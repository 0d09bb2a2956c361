"""`python -m deploy.lab.kubernetes up`: see README.md beside this file."""

import argparse
import sys
from pathlib import Path

from deploy.lab.cli import PROGRAMS, Cli, Options, env
from deploy.lab.files import write_private
from deploy.lab.kubernetes.lab import Lab
from deploy.lab.kubernetes.settings import ADMISSION_PLUGINS, DEFAULT_PORT_BASE, DEFAULT_STATE_DIR


def _up(lab: Lab, options: Options) -> None:
    lab.up(
        fresh=options.fresh,
        port_base=options.port_base,
        topology=options.topology,
        admission_plugins=options.admission_plugins,
        feature_gates=options.feature_gates,
        runtime_config=options.runtime_config,
        audit=options.audit,
    )
    if options.kubeconfig:
        write_private(options.kubeconfig.absolute(), lab.kubeconfig.read_text())
    env(lab)


def _options(name: str, command: argparse.ArgumentParser) -> None:
    if name != "up":
        return
    command.add_argument("--fresh", action="store_true", help="begin with an empty etcd")
    command.add_argument(
        "--port-base", type=int, help=f"first of 6 ports; default {DEFAULT_PORT_BASE} or the next free"
    )
    command.add_argument("--topology", type=Path, help="nodes and devices, as in topology.json")
    command.add_argument("--kubeconfig", type=Path, help="write the admin's kubeconfig there too")
    command.add_argument(
        "--admission-plugins", help=f"beside those of Kubernetes itself; default {ADMISSION_PLUGINS}"
    )
    command.add_argument("--feature-gates", help="such as A=true,B=false")
    command.add_argument(
        "--runtime-config", help="versions of APIs that are served or not, such as api/beta=true"
    )
    audit = "log each request to log/audit.log in the state folder"
    command.add_argument("--audit", action=argparse.BooleanOptionalAction, help=audit)


CLI = Cli(
    module="deploy.lab.kubernetes",
    make=lambda folder: Lab(state_dir=folder),
    state_dir=DEFAULT_STATE_DIR,
    does={**PROGRAMS, "up": _up, "env": lambda lab, _: env(lab)},
    options=_options,
    example="apiserver or kwok",
)

if __name__ == "__main__":
    sys.exit(CLI.main())
