"""What an order of a job may ask of a partition: what Slurm would refuse at once is refused beside its field."""

from typing import Any

import pytest

from gpuaas.clusters.job_order import Partition, job_order_read, script_read
from gpuaas.core.errors import Mistakes

GPU = Partition(name="gpu", gpus=2, vcpus=32, memory_gib=324, workers=3)


def wrong_of(given: dict[str, Any], place: Partition = GPU) -> dict[str, str]:
    wrong = Mistakes()
    job_order_read({"name": "train", "script": "true", **given}, {place.name: place}, wrong)
    return {name: each[0] for name, each in wrong.fields.items()}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"nodes": 3, "tasks": 3, "gpus_per_node": 2, "memory_gib": 324},
        {"nodes": 3, "tasks": 96},
        {"nodes": 2, "tasks": 4, "cpus_per_task": 16},
    ],
)
def test_what_its_workers_have_may_be_asked(given: dict[str, Any]) -> None:
    assert wrong_of(given) == {}


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"nodes": 2}, "tasks", "ask for 2 tasks or more"),
        ({"nodes": 4, "tasks": 4}, "nodes", "gpu has 3 workers, and this asks for 4 nodes"),
        ({"memory_gib": 325}, "memory_gib", "a worker of gpu has 324 for jobs, and this asks for 325"),
        ({"tasks": 33}, "tasks", "1 worker of gpu can run 32 with 1 vCPU each, and this asks for 33"),
        ({"nodes": 2, "tasks": 5, "cpus_per_task": 16}, "tasks", "2 workers of gpu can run 4 with 16 vCPUs"),
        ({"nodes": 3, "tasks": 6, "cpus_per_task": 17}, "tasks", "3 workers of gpu can run 3 with 17 vCPUs"),
        ({"cpus_per_task": 33}, "cpus_per_task", "a worker of gpu has 32"),
    ],
)
def test_what_they_never_have_is_refused_at_its_field(given: dict[str, Any], field: str, words: str) -> None:
    found = wrong_of(given)
    assert found.keys() == {field}
    assert words in found[field]


def test_an_empty_partition_takes_nothing() -> None:
    empty = Partition("gpu", 2, 32, 324, 0)
    assert wrong_of({}, empty) == {"nodes": "gpu has 0 workers, and this asks for 1 node"}


@pytest.mark.parametrize("script", ["#!/usr/bin/env python3\nprint(1)\n", "#!/bin/bash\ntrue\n"])
def test_a_script_that_names_its_program_stays_as_it_is(script: str) -> None:
    assert script_read(script) == script


def test_any_other_is_run_as_if_its_person_had_signed_in() -> None:
    assert script_read("module load cuda\n") == "#!/bin/bash -l\nmodule load cuda\n"
