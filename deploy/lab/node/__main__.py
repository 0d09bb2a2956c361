"""`python -m deploy.lab.node up`: see README.md beside this file."""

import argparse
import sys

from deploy.lab.cli import PROGRAMS, Cli, env, up
from deploy.lab.node.lab import Lab
from deploy.lab.node.settings import DEFAULT_STATE_DIR


def _options(name: str, command: argparse.ArgumentParser) -> None:
    """None beside those of all labs."""


CLI = Cli(
    module="deploy.lab.node",
    make=lambda folder: Lab(state_dir=folder),
    state_dir=DEFAULT_STATE_DIR,
    does={**PROGRAMS, "up": lambda lab, _: up(lab), "env": lambda lab, _: env(lab)},
    options=_options,
    example="kubelet, containerd or apiserver",
)

if __name__ == "__main__":
    sys.exit(CLI.main())
