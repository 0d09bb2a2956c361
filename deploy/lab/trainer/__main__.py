"""`python -m deploy.lab.trainer up`: see README.md beside this file."""

import argparse
import sys

from deploy.lab.cli import Cli, env, up
from deploy.lab.trainer.lab import DEFAULT_STATE_DIR, Lab


def _options(name: str, command: argparse.ArgumentParser) -> None:
    """None besides those of all labs."""


CLI = Cli(
    module="deploy.lab.trainer",
    make=lambda folder: Lab(state_dir=folder),
    state_dir=DEFAULT_STATE_DIR,
    does={"build": lambda lab, _: lab.build(), "up": lambda lab, _: up(lab), "env": lambda lab, _: env(lab)},
    options=_options,
    example="trainer",
)

if __name__ == "__main__":
    sys.exit(CLI.main())
