"""A job on a real kubelet: it sees its devices, fails by its exit code and by its memory, is tried again, and is ended."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.lab.node import Lab
from gpuaas.providers.base import Change, JobPhase, JobSpec
from tests.lab.fixtures import LabSite, carry_out
from tests.lab.jobs import seen
from tests.lab.node.place import TOOLS
from tests.lab.node.test_workspace import L4, free
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

GPUS = 2


@pytest.fixture
def bought(node_lab: Lab) -> Iterator[Room]:
    site = LabSite(node_lab.kubeconfig)
    spec = make_spec(gpus=(L4,), vcpus=2, memory_gib=2, closed=())
    yield make_room(site, spec)
    forget(site, spec)


def spec_of(bought: Room, script: str, **changes: object) -> JobSpec:
    made = uuid.uuid4()
    spec = JobSpec(
        id=made,
        name=f"job-{made.hex[:8]}-train",
        workspace=bought.ref,
        image=TOOLS,
        command=("sh", "-c", script),
        vcpus=1,
        memory_gib=1,
        user=1000,
        gpus=GPUS,
        resource_name=L4.resource_name,
        variables={"WORD": "it works"},
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def test_it_sees_its_devices_and_its_end_is_read(bought: Room) -> None:
    site, before = bought.driver.jobs, free(bought.admin)
    script = "echo $NVIDIA_VISIBLE_DEVICES; echo $WORD; id -u; test -e /var/run/secrets/kubernetes.io || echo no token"
    spec = spec_of(bought, script)
    carry_out(site, Change.CREATE, spec)
    found = seen(site, spec, lambda each: each.phase is JobPhase.SUCCEEDED, "it succeeds")
    assert (found.exit_code, found.attempt) == (0, 1)
    devices, *rest = site.log(spec, lines=10).splitlines()
    assert len(set(devices.split(","))) == GPUS
    assert all(re.fullmatch(r"GPU-[0-9a-f-]{36}", each) for each in devices.split(","))
    assert rest == ["it works", "1000", "no token"]
    carry_out(site, Change.SUSPEND, spec)
    assert site.observe(spec).phase is JobPhase.GONE
    assert free(bought.admin) == before


def test_it_is_tried_again_and_says_how_it_failed(bought: Room) -> None:
    site = bought.driver.jobs
    spec = spec_of(bought, "exit 3", retries=1, gpus=0)
    carry_out(site, Change.CREATE, spec)
    found = seen(site, spec, lambda each: each.phase is JobPhase.FAILED, "it fails for good")
    assert (found.attempt, found.exit_code, found.reason) == (2, 3, "Error")
    carry_out(site, Change.SUSPEND, spec)


def test_one_that_runs_is_ended_at_any_moment(bought: Room) -> None:
    site, before = bought.driver.jobs, free(bought.admin)
    spec = spec_of(bought, "trap exit TERM; sleep 86400 & wait")
    carry_out(site, Change.CREATE, spec)
    seen(site, spec, lambda each: each.phase is JobPhase.RUNNING, "it runs")
    carry_out(site, Change.DELETE, spec)
    assert site.observe(spec).phase is JobPhase.GONE
    assert free(bought.admin) == before


def test_an_image_that_is_not_there_is_no_hope(bought: Room) -> None:
    site = bought.driver.jobs
    spec = spec_of(bought, "true", image="localhost/no-such-image:1", gpus=0)
    carry_out(site, Change.CREATE, spec)
    found = seen(site, spec, lambda each: each.hopeless, "the site cannot get its image")
    assert found.reason in {"ImagePullBackOff", "ErrImageNeverPull"}
    carry_out(site, Change.SUSPEND, spec)


# task 0 answers by TCP; the other one asks it by its name until it does, and says what it heard
MEET = (
    'if [ "$NODE_RANK" = 0 ]; then '
    'echo "$HOSTS" > /tmp/hosts; timeout 240 nc -l -p "$MASTER_PORT" < /tmp/hosts; '
    "else "
    'for try in $(seq 60); do heard=$(sleep 3 | nc "$MASTER_ADDR" "$MASTER_PORT" 2> /tmp/refused); [ -n "$heard" ] && break; done; '
    'echo "heard $heard"; [ "$heard" = "$HOSTS" ]; fi'
)


def test_two_that_run_together_find_one_another_by_name_and_talk(bought: Room) -> None:
    site, before = bought.driver.jobs, free(bought.admin)
    spec = spec_of(bought, MEET, tasks=2, at_once=2, together=True, gpus=1)
    carry_out(site, Change.CREATE, spec)
    found = seen(
        site, spec, lambda each: each.phase in {JobPhase.SUCCEEDED, JobPhase.FAILED}, "they have met"
    )
    assert (found.phase, found.succeeded, found.detail) == (JobPhase.SUCCEEDED, "0-1", "")
    hosts = ",".join(f"{spec.name}-{number}.{spec.name}:1" for number in range(2))
    assert site.log(spec, lines=10, task=1).splitlines() == [f"heard {hosts}"]
    carry_out(site, Change.SUSPEND, spec)
    assert site.observe(spec).phase is JobPhase.GONE
    assert bought.admin.find(f"{bought.path('services')}/{spec.name}") is None
    assert free(bought.admin) == before


def test_the_first_that_fails_ends_the_other(bought: Room) -> None:
    site = bought.driver.jobs
    script = 'if [ "$NODE_RANK" = 1 ]; then exit 3; fi; trap exit TERM; sleep 86400 & wait'
    spec = spec_of(bought, script, tasks=2, at_once=2, together=True, gpus=0, retries=1)
    carry_out(site, Change.CREATE, spec)
    found = seen(site, spec, lambda each: each.phase is JobPhase.FAILED, "the site ends both")
    assert (found.failed, found.exit_code, found.attempt) == ("1", 3, 1)
    again = replace(spec, attempt=2, command=("sh", "-c", "exit 0"))
    carry_out(site, Change.CREATE, again)
    found = seen(site, again, lambda each: each.phase is JobPhase.SUCCEEDED, "the second attempt succeeds")
    assert (found.attempt, found.succeeded) == (2, "0-1")
    carry_out(site, Change.DELETE, again)
