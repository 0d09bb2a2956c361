"""Stops the control plane that the tests share: `python -m tests.lab.stop`. Its data stay for the next run."""

from deploy.lab.kubernetes import Lab
from tests.lab.fixtures import STATE_DIR


def main() -> None:
    if STATE_DIR.exists():
        Lab(state_dir=STATE_DIR).down()


if __name__ == "__main__":
    main()
