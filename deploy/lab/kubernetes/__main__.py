"""`python -m deploy.lab.kubernetes up`: see README.md beside this file."""

import argparse
import shlex
import sys
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.files import write_private
from deploy.lab.kubernetes.lab import Lab
from deploy.lab.kubernetes.settings import (
    ADMISSION_PLUGINS,
    DEFAULT_PORT_BASE,
    DEFAULT_STATE_DIR,
)

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
            return _up(lab, options)
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


def _up(lab: Lab, options: argparse.Namespace) -> int:
    lab.up(
        fresh=options.fresh,
        port_base=options.port_base,
        topology=options.topology,
        admission_plugins=options.admission_plugins,
        feature_gates=options.feature_gates,
        audit=options.audit,
    )
    if options.kubeconfig:
        write_private(options.kubeconfig.absolute(), lab.kubeconfig.read_text())
    return _env(lab)


def _env(lab: Lab) -> int:
    """Lines for `eval` in a shell."""
    if not lab.kubeconfig.exists():
        raise LabError(f"there is no lab in {lab.state_dir}; `up` makes one")
    print(f"export KUBECONFIG={shlex.quote(str(lab.kubeconfig))}")
    print(f"export KUBECTL={shlex.quote(str(lab.kubectl))}")
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
    parser = argparse.ArgumentParser(prog="python -m deploy.lab.kubernetes", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, help="default: %(default)s")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[common])

    command("build", "only build the programs, where they are not there yet")
    _add_up_options(
        command("up", "start it, or bring back what is missing; ends with the lines that `env` prints")
    )
    down = command("down", "stop it; the data stay")
    down.add_argument("--purge", action="store_true", help="remove the data too")
    command("status", "pids and memory; exit code 0 up, 3 down, 1 in between")
    command("env", "print KUBECONFIG and KUBECTL for eval in a shell")
    for name, text in {
        "stop": "stop one program, for tests of an outage",
        "start": "start it again",
        "pause": "let one program hang: connections stay, nothing answers",
        "resume": "let it go on",
    }.items():
        command(name, text).add_argument("program", help="such as apiserver or kwok")
    commands.choices["stop"].add_argument("--kill", action="store_true", help="by SIGKILL")
    return parser


def _add_up_options(up: argparse.ArgumentParser) -> None:
    up.add_argument("--fresh", action="store_true", help="begin with an empty etcd")
    up.add_argument(
        "--port-base", type=int, help=f"first of 6 ports; default {DEFAULT_PORT_BASE} or the next free"
    )
    up.add_argument("--topology", type=Path, help="nodes and devices, as in topology.json")
    up.add_argument("--kubeconfig", type=Path, help="write the admin's kubeconfig there too")
    up.add_argument(
        "--admission-plugins", help=f"beside those of Kubernetes itself; default {ADMISSION_PLUGINS}"
    )
    up.add_argument("--feature-gates", help="such as A=true,B=false")
    audit = "log each request to log/audit.log in the state folder"
    up.add_argument("--audit", action=argparse.BooleanOptionalAction, help=audit)


if __name__ == "__main__":
    sys.exit(main())
