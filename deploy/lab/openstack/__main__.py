"""`python -m deploy.lab.openstack up`: see README.md beside this file."""

import argparse
import shlex
import sys
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.openstack.lab import Lab
from deploy.lab.openstack.settings import DEFAULT_PORT_BASE, DEFAULT_STATE_DIR, LIMIT_MODELS

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
            lab.build()
        case "up":
            lab.up(
                fresh=options.fresh,
                port_base=options.port_base,
                topology=options.topology,
                limit_model=options.limit_model,
                debug=options.debug,
            )
            return _env(lab)
        case "down":
            lab.down(purge=options.purge)
        case "status":
            return _status(lab)
        case "env":
            return _env(lab)
        case "stop":
            lab.stop_program(options.program, kill=options.kill)
        case "start":
            lab.start_program(options.program)
        case "pause":
            lab.pause_program(options.program)
        case "resume":
            lab.resume_program(options.program)
    return 0


def _env(lab: Lab) -> int:
    """Lines for `eval` in a shell."""
    if not lab.clouds.exists():
        raise LabError(f"there is no lab in {lab.state_dir}; `up` makes one")
    print(f"export OS_CLIENT_CONFIG_FILE={shlex.quote(str(lab.clouds))}")
    print("export OS_CLOUD=lab")
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
    parser = argparse.ArgumentParser(prog="python -m deploy.lab.openstack", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, help="default: %(default)s")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[common])

    command("build", "only install what is missing")
    up = command("up", "start it, or bring back what is missing; ends with the lines that `env` prints")
    up.add_argument("--fresh", action="store_true", help="forget all projects, servers and images")
    up.add_argument(
        "--port-base", type=int, help=f"first of 14 ports; default {DEFAULT_PORT_BASE} or the next free"
    )
    up.add_argument("--topology", type=Path, help="hosts and GPUs, as in topology.json")
    up.add_argument(
        "--limit-model", choices=LIMIT_MODELS, help="does a child project's limit count in its parent's?"
    )
    up.add_argument("--debug", action=argparse.BooleanOptionalAction, help="debug logs of every service")
    down = command("down", "stop it; the data stay")
    down.add_argument("--purge", action="store_true", help="remove the data too")
    command("status", "pids and memory; exit code 0 up, 3 down, 1 in between")
    command("env", "print OS_CLIENT_CONFIG_FILE and OS_CLOUD for eval in a shell")
    for name, text in {
        "stop": "stop one program, for tests of an outage",
        "start": "start it again",
        "pause": "let one program hang: connections stay, nothing answers",
        "resume": "let it go on",
    }.items():
        command(name, text).add_argument("program", help="such as keystone, rabbitmq or compute-gpu-a100-1")
    commands.choices["stop"].add_argument("--kill", action="store_true", help="by SIGKILL")
    return parser


if __name__ == "__main__":
    sys.exit(main())
