"""The pages of docs/reference that follow from the code: `python -m tests.architecture.reference` writes them (`make openapi`)."""

import argparse
import ast
import importlib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, DjangoHelpFormatter

from gpuaas.core import env

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/reference"
ROOMS = ("gpuaas", "tenants", "quotas", "billing")
KINDS = {"gauge": "gauge", "Gauge": "gauge", "Counter": "counter", "Histogram": "histogram"}
COMMANDS_HEAD = """# Commands

Each is `gpuaas-portal COMMAND` in an installation and `manage.py COMMAND` in a checkout; `--help` says the same. Commands of
Django, such as `migrate` and `check --deploy`, are there too. This page is written by `make openapi`.
"""
METRICS_HEAD = """# Metrics

What Prometheus finds at `/metrics` of each process and at `/metrics/portal`, beside the metrics of django-prometheus
(requests, database, caches). [Watching the portal](../operators/watching.md#metrics-boards-and-alerts) says how to scrape
them, [Alerts](../operators/alerts.md) which rules use them. A counter ends in `_total`, a histogram has `_bucket`, `_sum`
and `_count`. This page is written by `make openapi`.

"""
SETTINGS_HEAD = """# Settings

All settings are environment variables. Each may also be given as `NAME_FILE`, the path of a file with the value, which is
how secrets are mounted. In production (`gpuaas.settings.production`) the portal does not start with an unsafe or missing
value, and names the variable. `deploy/portal.env.example` has those that everybody sets;
[the first day](../operators/first-day.md) leads through them. This page is written by `make openapi`.
"""
GROUPS = {
    "Needed in production": "",
    "Web": "",
    "Signing in": "",
    "Sites, workspaces and clusters": "",
    "Addresses of environments": "Without a domain there are none ([the door](../operators/door.md)).\n\n",
    "Money": "",
    "Processes, logs and metrics": "",
    "Backups": "",
}
LIST = "separated by commas"
TYPES = {
    "text": "text",
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "address": "HOST:PORT",
    "domain": "domain",
    "networks": f"addresses and networks, {LIST}",
    "words": f"list, {LIST}",
    "database": "URL",
    "mail": "URL",
    "collector": "URL",
}


@dataclass(frozen=True)
class Setting:
    """minimum, maximum: of a whole number. default: as the code has it; None if there is none, or the code works it out."""

    group: str
    name: str
    kind: str
    minimum: int | None
    default: str | bool | int | None
    words: str
    maximum: int | None = None


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    words: str
    labels: tuple[str, ...]


def commands() -> dict[str, BaseCommand]:
    """Our management commands by name, without those that only write documents of the repository."""
    files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("management/commands/[a-z]*.py"))
    found = {}
    for path in files:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[path.stem] = importlib.import_module(module).Command()
    return dict(sorted(found.items()))


def commands_page() -> str:
    return COMMANDS_HEAD + "".join(f"\n{_command(name, command)}" for name, command in commands().items())


def _command(name: str, command: BaseCommand) -> str:
    parser = command.create_parser("gpuaas-portal", name)
    parser.formatter_class = lambda prog: DjangoHelpFormatter(prog, width=110)
    words = textwrap.fill(" ".join(command.help.split()), 120, break_on_hyphens=False)
    options = [line for action in parser._actions if _is_own(action) for line in _option(action)]
    return f"## {name}\n\n{words}\n" + ("\n" + "\n".join(options) + "\n" if options else "")


def _is_own(action: argparse.Action) -> bool:
    return not set(action.option_strings) & DjangoHelpFormatter.show_last and action.dest != "help"


def _option(action: argparse.Action) -> list[str]:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        name = value
    else:
        name = action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")
    words = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    text = f"- `{name}`: {' '.join(words.split())}" if words else f"- `{name}`"
    return textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False)


def metrics() -> Iterator[Metric]:
    """By name: every metric that the code declares with its help and its labels as literals."""
    found = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
                    known = _metric(node, KINDS[node.func.id])
                    if known is not None:
                        found[known.name] = known
    yield from (found[name] for name in sorted(found))


def _metric(call: ast.Call, kind: str) -> Metric | None:
    try:
        name, words, labels = (ast.literal_eval(each) for each in call.args[:3])
    except ValueError:
        return None
    known = isinstance(name, str) and name.startswith("gpuaas_")
    return (
        Metric(name + ("_total" if kind == "counter" else ""), kind, words, tuple(labels)) if known else None
    )


def metrics_page() -> str:
    rows = []
    for each in metrics():
        labels = f" by {', '.join(f'`{label}`' for label in each.labels)}" if each.labels else ""
        text = f"- `{each.name}` ({each.kind}{labels}): {each.words}"
        rows += textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False)
    return METRICS_HEAD + "\n".join(rows) + "\n"


def settings() -> Iterator[Setting]:
    """Every setting that a comment `#: group: words` explains above the call of `gpuaas.core.env` that reads it."""
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "#: " in text:
            tree = ast.parse(text)
            constants = {
                node.targets[0].id: node.value
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
            for node in sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0)):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="env"), attr=kind)) if kind in TYPES:
                        if group_words := _explained(text.splitlines(), node.lineno):
                            yield _setting(node, kind, group_words, constants)


def _explained(lines: Sequence[str], number: int) -> str:
    words: list[str] = []
    while (line := lines[number - 2].strip()).startswith("#: "):
        words.insert(0, line[3:])
        number -= 1
    return " ".join(words)


def _setting(call: ast.Call, kind: str, explained: str, constants: Mapping[str, ast.expr]) -> Setting:
    group, _, words = explained.partition(": ")
    given = {word.arg: word.value for word in call.keywords} | dict(
        zip(("name", "default"), call.args, strict=False)
    )
    given["name"] = constants.get(getattr(given["name"], "id", ""), given["name"])
    values: dict[str | None, Any] = {
        key: value.value for key, value in given.items() if isinstance(value, ast.Constant)
    }
    least = signature(env.integer).parameters["minimum"].default if kind == "integer" else None
    minimum, maximum = values.get("minimum", least), values.get("maximum")
    return Setting(group, str(values["name"]), kind, minimum, values.get("default"), words, maximum)


def settings_page() -> str:
    rows: dict[str, list[str]] = {group: [] for group in GROUPS}
    for each in settings():
        about = TYPES[each.kind] + (f", at least {each.minimum}" if each.minimum is not None else "")
        about += f", at most {each.maximum}" if each.maximum is not None else ""
        if each.default not in (None, ""):
            about += f"; default `{str(each.default).lower() if each.kind == 'boolean' else each.default}`"
        text = f"- `{each.name}` ({about}): {each.words}"
        rows[each.group] += textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False)
    parts = [f"\n## {group}\n\n{intro}" + "\n".join(rows[group]) + "\n" for group, intro in GROUPS.items()]
    return SETTINGS_HEAD + "".join(parts)


PAGES = {"commands.md": commands_page, "metrics.md": metrics_page, "settings.md": settings_page}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    import django

    django.setup()
    main()
