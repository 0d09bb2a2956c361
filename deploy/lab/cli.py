"""The commands that labs have in common, read and carried out alike: `python -m deploy.lab.<lab> up`."""

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from deploy.lab.errors import LabError
from deploy.lab.processes import ProgramStatus

EXIT_BROKEN, EXIT_DOWN, EXIT_INTERRUPTED = 1, 3, 130
WORDS = {
    "build": "only build or install the programs, where they are not there yet",
    "up": "start it, or bring back what is missing; ends with the lines that a client needs",
    "down": "stop it; the data stay",
    "status": "pids and memory; exit code 0 up, 3 down, 1 in between",
    "env": "print the lines that a client needs, for eval in a shell",
    "stop": "stop one program, for tests of an outage",
    "start": "start it again",
    "pause": "let one program hang: connections stay, nothing answers",
    "resume": "let it go on",
}
OF_ONE_PROGRAM = {"stop", "start", "pause", "resume"}


class OfKubernetes(Protocol):
    """A lab that ends with a kubeconfig."""

    @property
    def state_dir(self) -> Path: ...

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def kubectl(self) -> Path: ...


class Startable(OfKubernetes, Protocol):
    def up(self) -> None: ...


class AnyLab(Protocol):
    def status(self) -> list[ProgramStatus]: ...

    def down(self, *, purge: bool = False) -> None: ...

    def stop_program(self, name: str, *, kill: bool = False) -> None: ...


class OfPrograms(AnyLab, Protocol):
    """A lab whose programs a test may start, hang and let go on one by one."""

    def build(self) -> None: ...

    def start_program(self, name: str) -> None: ...

    def pause_program(self, name: str) -> None: ...

    def resume_program(self, name: str) -> None: ...


L = TypeVar("L", bound=AnyLab)
Options = argparse.Namespace
PROGRAMS: Mapping[str, Callable[[OfPrograms, Options], None]] = {
    "build": lambda lab, _: lab.build(),
    "start": lambda lab, options: lab.start_program(options.program),
    "pause": lambda lab, options: lab.pause_program(options.program),
    "resume": lambda lab, options: lab.resume_program(options.program),
}


@dataclass(frozen=True)
class Cli(Generic[L]):
    """make: the lab in a state folder. does: what this lab does by itself, by command of `WORDS`; down, status and stop are everywhere.
    options: adds what a command takes besides. example: names of programs."""

    module: str
    make: Callable[[Path], L]
    state_dir: Path
    does: Mapping[str, Callable[[L, Options], None]]
    options: Callable[[str, argparse.ArgumentParser], None]
    example: str

    def main(self) -> int:
        """The exit status."""
        options = self._parser().parse_args()
        lab = self.make(options.state_dir)
        try:
            return self._run(lab, options)
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_BROKEN
        except KeyboardInterrupt:
            print("interrupted; `down` stops what was started", file=sys.stderr)
            return EXIT_INTERRUPTED

    def _run(self, lab: L, options: Options) -> int:
        match options.command:
            case "down":
                lab.down(purge=options.purge)
            case "status":
                return status(lab)
            case "stop":
                lab.stop_program(options.program, kill=options.kill)
            case command:
                self.does[command](lab, options)
        return 0

    def _parser(self) -> argparse.ArgumentParser:
        text = f"`python -m {self.module} up`: see README.md in its folder."
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=text)
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--state-dir", type=Path, default=self.state_dir, help="default: %(default)s")
        commands = parser.add_subparsers(dest="command", required=True)
        for name, words in WORDS.items():
            if name not in {*self.does, "down", "status", "stop"}:
                continue
            command = commands.add_parser(name, help=words, description=words, parents=[common])
            if name in OF_ONE_PROGRAM:
                command.add_argument("program", help=f"such as {self.example}")
            if name == "stop":
                command.add_argument("--kill", action="store_true", help="by SIGKILL")
            if name == "down":
                command.add_argument("--purge", action="store_true", help="remove the data too")
            self.options(name, command)
        return parser


def status(lab: AnyLab) -> int:
    """0 where all runs, 3 where nothing does, 1 in between."""
    found = lab.status()
    for program in found:
        print(f"{program.name:<24} {program.pid or 'down':>8} {program.memory_mib:>6} MiB")
    print(f"{'all':<24} {'':>8} {sum(program.memory_mib for program in found):>6} MiB")
    if not any(program.pid for program in found):
        return EXIT_DOWN
    return 0 if all(program.pid for program in found) else EXIT_BROKEN


def env(lab: OfKubernetes) -> None:
    """Lines for `eval` in a shell."""
    if not lab.kubeconfig.exists():
        raise LabError(f"there is no lab in {lab.state_dir}; `up` makes one")
    print(f"export KUBECONFIG={shlex.quote(str(lab.kubeconfig))}")
    print(f"export KUBECTL={shlex.quote(str(lab.kubectl))}")


def up(lab: Startable) -> None:
    """Starts it, and ends with the lines that a client needs."""
    lab.up()
    env(lab)
