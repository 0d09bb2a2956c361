"""`python -m deploy.lab.cluster_api up`: see README.md beside this file."""

import argparse
import shlex
import sys
from pathlib import Path

from deploy.lab.cluster_api.lab import Lab
from deploy.lab.cluster_api.settings import DEFAULT_STATE_DIR
from deploy.lab.errors import LabError

EXIT_BROKEN, EXIT_DOWN = 1, 3


def main() -> int:
    options = _parser().parse_args()
    lab = Lab(state_dir=options.state_dir)
    try:
        return _run(lab, options)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BROKEN
    except KeyboardInterrupt:
        print("interrupted; `down` stops what was started", file=sys.stderr)
        return 130


def _run(lab: Lab, options: argparse.Namespace) -> int:
    match options.command:
        case "build":
            lab.build(openstack=options.openstack)
        case "up":
            lab.up(openstack=options.openstack)
            print(f"export KUBECONFIG={shlex.quote(str(lab.kubeconfig))}")
        case "down":
            lab.down(purge=options.purge)
        case "status":
            return _status(lab)
        case "stop":
            lab.stop_program(options.program, kill=options.kill)
    return 0


def _status(lab: Lab) -> int:
    found = lab.status()
    for program in found:
        print(f"{program.name:<24} {program.pid or 'down':>8} {program.memory_mib:>6} MiB")
    print(f"{'all':<24} {'':>8} {sum(program.memory_mib for program in found):>6} MiB")
    if not any(program.pid for program in found):
        return EXIT_DOWN
    return 0 if all(program.pid for program in found) else EXIT_BROKEN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.lab.cluster_api", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, help="default: %(default)s")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in {
        "build": "only build the programs, where they are not there yet",
        "up": "start it, or bring back what is missing; ends with the line that names the management cluster",
        "down": "stop it; what was ordered stays, and is there again after the next `up`",
        "status": "pids and memory; exit code 0 up, 3 down, 1 in between",
        "stop": "stop one controller, for tests of an outage; `up` brings it back",
    }.items():
        command = commands.add_parser(name, help=text, description=text, parents=[common])
        if name in {"build", "up"}:
            command.add_argument("--openstack", action="store_true", help="with OpenStack's provider")
        if name == "down":
            command.add_argument("--purge", action="store_true", help="remove the data too")
        if name == "stop":
            command.add_argument("program")
            command.add_argument("--kill", action="store_true", help="by SIGKILL")
    return parser


if __name__ == "__main__":
    sys.exit(main())
