"""The document of a kind's version, typed: what runs, how it is reached, and what may be said when it is ordered."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Schema, Unfit, document_check, schema_compile
from gpuaas.environments.states import Access
from gpuaas.workspaces.room import LABELS, MOST, size_check

VARIABLE: Final = r"^[A-Z][A-Z0-9_]{0,63}=.*$"
# $(NAME) of command and arguments is the value of a variable, and each parameter is one
PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,39}")
PATH: Final = r"^/[A-Za-z0-9._/-]*$"
IMAGE: Final = r"^[a-z0-9][A-Za-z0-9._:/@-]*$"
# what tells when it was last used: people at the door alone, or besides an API of what runs
ACTIVITIES = ("connections", "jupyter", "code-server")
# whose counters of requests and tokens its server shows
METRICS = ("vllm",)
# of a kind without a port, which is entered by SSH, the fields that mean nothing
NEEDS_PORT: Final = ("readiness", "activity", "metrics", "metrics_path")
IDLE_MOST = 720
WORKERS_MOST = 64
# variables that pods of a kind with workers get of the portal: where the main one is reached, how many work for it, the sizes
# of one; and a worker its number
GIVEN: Final = ("MAIN", "WORKERS", "WORKER_GPUS", "WORKER_VCPUS", "WORKER_MEMORY_GIB", "WORKER")
# where a document does not say: those who are not of the workspace come in by an operator's leave alone
USUAL_ACCESS = [Access.WORKSPACE.value, Access.PRIVATE.value]


def _lines(title: str, **items: Any) -> Schema:
    return {"type": "array", "title": title, "items": {"type": "string", **items}}


def _number(name: str, default: int) -> Schema:
    least = 0 if name == "gpus" else 1
    return {
        "type": "integer",
        "title": LABELS[name],
        "minimum": least,
        "maximum": MOST[name],
        "default": default,
    }


_IMAGE: Final = {"type": "string", "title": "Image", "pattern": IMAGE, "maxLength": 255}
# sizes of a worker of which neither the document nor an order says anything
WORKER_USUAL = {"gpus": 0, "vcpus": 2, "memory_gib": 8}
# all but the schema of the parameters, and the workers
DOCUMENT = schema_compile(
    {
        "type": "object",
        "required": ["image", "home"],
        "properties": {
            "image": _IMAGE,
            "command": _lines("Command, in place of the image's"),
            "arguments": _lines("Arguments"),
            "port": {
                "type": "integer",
                "title": "Port; without one it is entered by SSH alone",
                "minimum": 1024,
                "maximum": 65535,
            },
            "readiness": {
                "type": "string",
                "title": "Path that answers once it is ready",
                "pattern": PATH,
                "default": "/",
            },
            "home": {
                "type": "string",
                "title": "Where the home is mounted",
                "pattern": r"^/[a-z][a-z0-9/_-]+$",
            },
            "user": {
                "type": "integer",
                "title": "Numeric account as which it runs",
                "minimum": 1,
                "maximum": 2**31 - 1,
                "default": 1000,
            },
            "variables": _lines("Variables, each NAME=value", pattern=VARIABLE),
            "activity": {
                "type": "string",
                "title": "What tells when it was last used",
                "enum": list(ACTIVITIES),
                "default": ACTIVITIES[0],
            },
            "metrics": {
                "type": "string",
                "title": "Whose counters of requests and tokens it shows",
                "enum": list(METRICS),
            },
            "metrics_path": {
                "type": "string",
                "title": "Path of these counters",
                "pattern": PATH,
                "default": "/metrics",
            },
            "idle_hours": {
                "type": "integer",
                "title": "Hours without use after which it is stopped",
                "minimum": 1,
                "maximum": IDLE_MOST,
            },
            "access": {
                "type": "array",
                "title": "Who may open it, of which tenants choose; the first is the default",
                "items": {"type": "string", "enum": list(Access.values)},
                "uniqueItems": True,
            },
            "gpus": _number("gpus", 0),
            "vcpus": _number("vcpus", 2),
            "memory_gib": _number("memory_gib", 8),
            "home_gib": _number("home_gib", 10),
        },
    }
)
# of what works for the main pod; sizes that it leaves out are chosen by those who order
WORKERS = schema_compile(
    {
        "type": "object",
        "required": ["most"],
        "properties": {
            "most": {"type": "integer", "title": "At most", "minimum": 1, "maximum": WORKERS_MOST},
            "count": {"type": "integer", "title": "Usual number", "minimum": 0, "maximum": WORKERS_MOST},
            "image": _IMAGE,
            "command": _lines("Command, in place of the image's"),
            "arguments": _lines("Arguments"),
            **{
                name: {key: each for key, each in _number(name, 0).items() if key != "default"}
                for name in WORKER_USUAL
            },
            "memory_gib_least": {
                "type": "integer",
                "title": "Least memory in GiB that an order may choose",
                "minimum": 1,
                "maximum": MOST["memory_gib"],
                "default": 1,
            },
        },
    }
)


@dataclass(frozen=True)
class Workers:
    """Pods that work for the main one. count: of an order that says nothing else. image: "" = that of the main one. sizes: of
    one of them; open: those that an order may choose. memory_gib_least: of these, below which it does not work."""

    most: int
    count: int
    image: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    sizes: Mapping[str, int]
    open: tuple[str, ...]
    memory_gib_least: int = 1

    def least(self, name: str) -> int:
        """Of a size of one worker, by its name."""
        return {"gpus": 0, "memory_gib": self.memory_gib_least}.get(name, 1)

    def count_require(self, count: int | None) -> int:
        """Of a tenant's choice; None leaves it at the kind's. Raises Invalid at `workers`."""
        if count is None:
            return self.count
        if type(count) is not int or not 0 <= count <= self.most:
            raise Invalid.field(
                "workers", f"a whole number from 0 to {self.most}, the most that this kind allows"
            )
        return count

    def size_require(self, name: str, size: int | None) -> int:
        """The same of a size of one worker. Raises Invalid at `worker_<name>`."""
        field, fixed = f"worker_{name}", self.sizes[name]
        if size is None or (size == fixed and name not in self.open):
            return fixed
        if name not in self.open:
            raise Invalid.field(field, f"each worker of this kind has {fixed:,}")
        try:
            checked = size_check(name, size)
        except Invalid as error:
            raise Invalid.field(field, error.fields[name][0]) from error
        if checked < self.least(name):
            raise Invalid.field(field, f"each worker of this kind needs at least {self.least(name):,} GiB")
        return checked


@dataclass(frozen=True)
class Definition:
    """`sizes`: what an order asks for if it says nothing else, by the names of MOST. port: None = it is entered by SSH alone.
    activity: one of ACTIVITIES. idle_hours: without use, after which it is stopped at the latest; None = never, unless a tenant
    chooses so. access: who may open it, of which tenants choose; the first is the default. metrics: one of METRICS, "" = none.
    workers: None = the main pod is all of it."""

    image: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    port: int | None
    readiness: str
    home: str
    user: int
    variables: Mapping[str, str]
    sizes: Mapping[str, int]
    parameters: Schema
    activity: str = ACTIVITIES[0]
    idle_hours: int | None = None
    access: tuple[Access, ...] = tuple(map(Access, USUAL_ACCESS))
    metrics: str = ""
    metrics_path: str = "/metrics"
    workers: Workers | None = None

    def access_require(self, access: str | None) -> Access:
        """Of a tenant's choice; None is the default. Raises Invalid at `access`."""
        if access is None:
            return self.access[0]
        found = next((each for each in self.access if each == access), None)
        if found is None:
            raise Invalid.field("access", f"this kind allows one of these: {', '.join(self.access)}")
        return found

    def idle_hours_require(self, hours: int | None) -> None:
        """Of a tenant's choice; None leaves it at the kind's. Raises Invalid at `idle_hours`."""
        most = self.idle_hours or IDLE_MOST
        if hours is not None and (type(hours) is not int or not 1 <= hours <= most):
            whose = "the most that this kind allows" if self.idle_hours else "the most"
            raise Invalid.field("idle_hours", f"a whole number of hours from 1 to {most}, which is {whose}")

    def environment_of(self, parameters: Mapping[str, Any]) -> dict[str, str]:
        """The variables of the container, those of the parameters among them."""
        words = {True: "true", False: "false"}
        given = {
            name.upper(): words.get(value, str(value)) if isinstance(value, bool) else str(value)
            for name, value in parameters.items()
        }
        return {**self.variables, **given}


def definition_read(document: Any) -> Definition:
    """Raises Invalid with the place and the error, at the field `document`."""
    if not isinstance(document, Mapping):
        raise Unfit("", "the definition must be a JSON object")
    given = {key: value for key, value in document.items() if key not in {"parameters", "workers"}}
    checked = _checked(DOCUMENT, given)
    parameters = schema_compile(
        document.get("parameters", {"type": "object", "properties": {}}), path="parameters"
    )
    _port_check(given)
    lines = [line.split("=", 1) for line in checked.get("variables", [])]
    variables = dict(lines)
    if len(variables) < len(lines):
        raise Unfit("variables", "each variable may be set only once")
    workers = _workers_read(document["workers"]) if "workers" in document else None
    _parameters_check(parameters, {**variables, **dict.fromkeys(GIVEN if workers else (), "")})
    if workers is not None and (taken := sorted(set(GIVEN) & set(variables))):
        raise Unfit("variables", f"{taken[0]} comes from the portal where there are workers")
    return Definition(
        command=tuple(checked.get("command", ())),
        arguments=tuple(checked.get("arguments", ())),
        variables=variables,
        sizes={name: checked[name] for name in MOST},
        idle_hours=checked.get("idle_hours"),
        metrics=checked.get("metrics", ""),
        access=tuple(map(Access, checked.get("access", USUAL_ACCESS))),
        port=checked.get("port"),
        parameters=parameters,
        workers=workers,
        **{key: checked[key] for key in ("image", "readiness", "home", "user", "activity", "metrics_path")},
    )


def _checked(schema: Schema, given: Any, within: str = "") -> dict[str, Any]:
    try:
        return document_check(schema, given)
    except Invalid as error:
        place, words = next(iter(error.fields.items()))
        raise Unfit(".".join(filter(None, (within, place))), words[0]) from error


def _workers_read(given: Any) -> Workers:
    checked = _checked(WORKERS, given, "workers")
    count = checked.get("count", min(1, checked["most"]))
    if count > checked["most"]:
        raise Unfit("workers.count", f"no more than {checked['most']}, the most that there may be")
    least = checked["memory_gib_least"]
    if checked.get("memory_gib", least) < least:
        raise Unfit("workers.memory_gib", f"no less than {least}, the least that an order may choose")
    usual = {**WORKER_USUAL, "memory_gib": max(WORKER_USUAL["memory_gib"], least)}
    return Workers(
        most=checked["most"],
        count=count,
        image=checked.get("image", ""),
        command=tuple(checked.get("command", ())),
        arguments=tuple(checked.get("arguments", ())),
        sizes={name: checked.get(name, size) for name, size in usual.items()},
        open=tuple(name for name in WORKER_USUAL if name not in checked),
        memory_gib_least=least,
    )


def _port_check(given: Mapping[str, Any]) -> None:
    """What only makes sense with a port is refused without one: guests come in at an address, and nobody else's keys open a shell."""
    if "port" in given:
        return
    for name in NEEDS_PORT:
        if name in given:
            raise Unfit(name, "this needs a port")
    if not set(given.get("access", ())) <= set(USUAL_ACCESS):
        raise Unfit("access", f"without a port only these are possible: {', '.join(USUAL_ACCESS)}")


def _parameters_check(parameters: Schema, variables: Mapping[str, str]) -> None:
    if parameters["type"] != "object":
        raise Unfit("parameters", "the parameters must be an object")
    for name, schema in parameters["properties"].items():
        place = f"parameters.{name}"
        if not PARAMETER.fullmatch(name):
            raise Unfit(
                place, "a parameter is named by lower-case letters, digits and _: it becomes a variable"
            )
        if schema["type"] not in {"string", "integer", "boolean"}:
            raise Unfit(place, "a parameter must be one text, number or yes and no")
        if name.upper() in variables:
            raise Unfit(place, f"the variable {name.upper()} is set already")
