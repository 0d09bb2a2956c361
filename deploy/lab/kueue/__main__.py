"""`python -m deploy.lab.kueue up`: see README.md beside this file."""

import argparse
import sys

from deploy.lab.cli import Cli, env, up
from deploy.lab.kueue.lab import DEFAULT_STATE_DIR, Lab


def _options(name: str, command: argparse.ArgumentParser) -> None:
    """None besides those of all labs."""


CLI = Cli(
    module="deploy.lab.kueue",
    make=lambda folder: Lab(state_dir=folder),
    state_dir=DEFAULT_STATE_DIR,
    does={"build": lambda lab, _: lab.build(), "up": lambda lab, _: up(lab), "env": lambda lab, _: env(lab)},
    options=_options,
    example="kueue",
)

if __name__ == "__main__":
    sys.exit(CLI.main())
