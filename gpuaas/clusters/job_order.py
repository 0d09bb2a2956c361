"""What an order of a job on a Slurm cluster may say. Each refusal names its field, and all are named at once. Pure."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.core.errors import UNKNOWN, Invalid, Mistakes
from gpuaas.staging.transfers import FILES, Way, folder_check, transfers_read

SCRIPT_MOST = 32_768
MINUTES_MOST = 365 * 24 * 60
NODES_MOST, TASKS_MOST, GPUS_MOST, CPUS_MOST, MEMORY_MOST = 500, 100_000, 64, 1024, 65_536
USUAL: Final[dict[str, Any]] = {
    "partition": "",
    "nodes": 1,
    "tasks": 1,
    "gpus_per_node": 0,
    "cpus_per_task": 1,
    "memory_gib": None,
    "minutes": None,
    "inputs": (),
    "outputs": (),
}
LABELS: Final = {
    "nodes": "Nodes",
    "tasks": "Tasks",
    "gpus_per_node": "GPUs per node",
    "cpus_per_task": "vCPUs per task",
    "memory_gib": "Memory per node in GiB",
    "minutes": "The time limit in minutes",
}
BOUNDS: Final = {
    "nodes": (1, NODES_MOST),
    "tasks": (1, TASKS_MOST),
    "gpus_per_node": (0, GPUS_MOST),
    "cpus_per_task": (1, CPUS_MOST),
    "memory_gib": (1, MEMORY_MOST),
    "minutes": (1, MINUTES_MOST),
}
LOGS = "gpuaas-jobs"  # the folder of a home in which the logs of jobs and movers are
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_DIRECTIVE = re.compile(r"#(SBATCH|SLURM|PBS|BSUB)\b")


@dataclass(frozen=True)
class Partition:
    """A pool of the cluster, with what one of its workers has for jobs, and of how many workers one may take."""

    name: str
    gpus: int
    vcpus: int
    memory_gib: int
    workers: int


def job_order_read(
    given: Mapping[str, Any],
    partitions: Mapping[str, Partition],
    wrong: Mistakes,
    *,
    credentials: Container[str] = (),
    unmoved: str = "",
) -> dict[str, Any]:
    """As it is stored. partitions: of the cluster, the default first; credentials: names of the project's; unmoved: why the cluster moves
    no files; `wrong` gets what cannot be."""
    found, read = {"name": "", "script": "", **USUAL, **given}, dict(USUAL)
    for name in found.keys() - {"name", "script", *USUAL}:
        with wrong:
            raise Invalid.field(name, UNKNOWN)
    for way, name in zip(Way, FILES, strict=True):
        with wrong:
            if unmoved and found[name]:
                raise Invalid.field(name, unmoved)
            read[name] = transfers_read(way, found[name], wrong, _no_volume, credentials, _folder)
    with wrong:
        read["name"] = _name(found["name"])
    with wrong:
        read["script"] = script_read(found["script"])
    for name, (least, most) in BOUNDS.items():
        if found[name] is not None or USUAL[name] is not None:
            with wrong:
                read[name] = _whole(name, found[name], least, most)
    place = None
    with wrong:
        place = _partition(found["partition"], partitions)
        read["partition"] = place.name
    with wrong:
        if read["tasks"] < read["nodes"]:
            raise Invalid.field(
                "tasks", f"ask for {read['nodes']} tasks or more: each node runs one at least"
            )
    if place is not None:
        _fits(read, place, wrong)
    return read


def script_read(value: Any) -> str:
    if type(value) is not str or not value.strip():
        raise Invalid.field("script", "enter the script that the job runs")
    if "\x00" in value:
        raise Invalid.field("script", "the script contains a null character")
    text = value.replace("\r\n", "\n").rstrip() + "\n"
    if not text.startswith("#!"):
        text = f"#!/bin/bash -l\n{text}"
    if len(text) > SCRIPT_MOST:
        raise Invalid.field(
            "script", f"a script has at most {SCRIPT_MOST:,} characters; this has {len(text):,}"
        )
    for number, line in enumerate(text.split("\n"), start=1):
        if found := _DIRECTIVE.match(line):
            raise Invalid.field(
                "script",
                f"line {number} asks Slurm for something by #{found[1]}, which the portal would not know of: use the fields of the "
                "order and remove the line, or submit the script on the head",
            )
    return text


def _no_volume(text: str) -> None:
    if text:
        raise Invalid(
            "jobs of Slurm clusters have no volumes: leave this empty, and name a folder of your home"
        )


def _folder(text: str) -> None:
    """Of a home. All of it would take along what is there for its owner alone, and the log that is written meanwhile."""
    first = next((name for name in text.split("/") if name not in {"", "."}), "")
    if not first:
        raise Invalid("name a folder of your home on the cluster, such as data/digits")
    if first == LOGS:
        raise Invalid(f"{LOGS} has the logs of jobs, also of the one that moves files: name another folder")
    try:
        folder_check(text)
    except Invalid as error:
        raise Invalid(error.message.replace("the root of the volume", "your home")) from error


def _name(value: Any) -> str:
    if type(value) is not str or not _NAME.fullmatch(value):
        raise Invalid.field(
            "name", "a name has 1 to 40 lower-case letters, digits and hyphens, and no hyphen at either end"
        )
    return value


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Invalid.field(name, f"{LABELS[name]} must be a whole number from {least} to {most:,}")
    return value


def _partition(value: Any, partitions: Mapping[str, Partition]) -> Partition:
    found = next(iter(partitions.values()), None) if value == "" else None
    if type(value) is str and value:
        found = partitions.get(value)
    if found is None:
        raise Invalid.field("partition", f"choose one of {', '.join(partitions)}")
    return found


def _fits(read: Mapping[str, Any], place: Partition, wrong: Mistakes) -> None:
    """Slurm refuses at once what the partition could not start even if it were idle."""
    has = {"gpus_per_node": place.gpus, "cpus_per_task": place.vcpus, "memory_gib": place.memory_gib}
    for name, most in has.items():
        with wrong:
            if (read[name] or 0) > most:
                raise Invalid.field(
                    name,
                    f"{LABELS[name]}: a worker of {place.name} has {most:,}{' for jobs' if name == 'memory_gib' else ''}, and this "
                    f"asks for {read[name]:,}",
                )
    with wrong:
        if read["nodes"] > place.workers:
            holds, asks = counted(place.workers, "worker"), counted(read["nodes"], "node")
            raise Invalid.field("nodes", f"{place.name} has {holds}, and this asks for {asks}")
    if not wrong.fields.keys() & {"nodes", "tasks", "cpus_per_task"}:
        with wrong:
            _tasks_fit(read, place)


def _tasks_fit(read: Mapping[str, Any], place: Partition) -> None:
    most = read["nodes"] * (place.vcpus // read["cpus_per_task"])
    if read["tasks"] > most:
        nodes, cpus = counted(read["nodes"], "worker"), counted(read["cpus_per_task"], "vCPU")
        can = f"{nodes} of {place.name} can run {most:,} with {cpus} each"
        raise Invalid.field("tasks", f"{can}, and this asks for {read['tasks']:,}")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
