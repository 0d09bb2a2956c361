"""The machine's own script, run by bash and curl against the portal itself: what it tells, and what it keeps to itself."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from gpuaas.clusters.models import Cluster, ClusterTemplate, NodeBoot
from gpuaas.clusters.spec import spec_of
from gpuaas.core.ids import uuid7
from gpuaas.providers.base import boot_token
from gpuaas.providers.openstack.clusters.guest import Guest
from gpuaas.providers.openstack.clusters.health import console_line
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import order
from tests.factories.quotas import limits_give
from tests.providers.openstack_clusters.stage import installed

pytestmark = pytest.mark.django_db(transaction=True)
WORKS = "stage_packages() { :; }\nstage_gpu_driver() { :; }\nstage_join() { :; }\nstage_ready() { :; }\n"
SECONDS = 120


@pytest.fixture
def machine(
    as_alice: Actor, project: Project, template: ClusterTemplate, live_server: Any, settings: Any
) -> Guest:
    """A worker of a cluster that was ordered, which the portal's address leads to."""
    cache.clear()
    settings.PUBLIC_URL = live_server.url
    limits_give(project, {"gpu:h100-sxm-80gb": None})
    cluster = Cluster.objects.get(pk=order(as_alice, project).pk)
    spec, boot = spec_of(cluster), uuid7()
    name = f"{cluster.external_name}-gpu-1"
    token = boot_token(spec.boots.seed, cluster=cluster.pk, node=name, boot=boot)
    return Guest(
        spec, name, spec.release, boot.hex, token, ("10.0.0.11",), "203.0.113.7", "10.0.0.0/16", spec.pools[0]
    )


def run(
    machine: Guest, root: Path, stages: str, script: str = "gpuaas-boot", **more: str
) -> subprocess.CompletedProcess[str]:
    """As cloud-init would, with stages that do nothing to this machine."""
    etc = root / "etc/gpuaas"
    if not etc.exists():
        installed(machine, root)
    (etc / "stages.sh").write_text(stages)
    tools = root / "usr/local/sbin"
    (tools / "gpuaas-metadata").write_text("#!/bin/sh\n")  # it would change this machine's own routes
    around = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GPUAAS_ETC": str(etc),
        "GPUAAS_LOG": str(root / "boot.log"),
        "GPUAAS_CONSOLE": str(root / "console"),
        "GPUAAS_CLOCK_SECONDS": "0",
        "GPUAAS_PAUSES": "0 0 0",
        "GPUAAS_RUN": str(root),
        **more,
    }
    return subprocess.run(
        [tools / script], env=around, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def test_every_stage_is_told_in_its_turn(machine: Guest, tmp_path: Path) -> None:
    done = run(machine, tmp_path, WORKS)
    assert done.returncode == 0, done.stderr
    row = NodeBoot.objects.get()
    assert (row.node, row.boot, row.stage, row.passed) == (machine.name, machine.boot, "ready", "joined")


def test_a_failure_is_told_with_its_last_lines_and_without_secrets(machine: Guest, tmp_path: Path) -> None:
    secret = machine.secrets["agents"]
    stages = WORKS + f'stage_join() {{ echo "token: {secret}"; echo "E: no route to the head"; false; }}\n'
    done = run(machine, tmp_path, stages)
    assert done.returncode == 1
    row = NodeBoot.objects.get()
    assert (row.stage, row.passed) == ("failed", "gpu-driver")
    assert row.message.splitlines()[0] == "at the stage joined: false failed: E: no route to the head"
    assert "E: no route to the head" in row.message
    assert secret not in row.message
    assert secret not in done.stdout + done.stderr


def test_a_failure_reads_as_a_person_would_write_it(machine: Guest, tmp_path: Path) -> None:
    """Neither codes for terminals, nor progress, nor what was written over: the cause in the first line, its evidence below."""
    noise = (
        r"\033[1;31mError:\033[0m disk is full\n(Reading database ... 5%%\r(Reading database ... 100%%\r(Reading database ... 9 files.)\n"
        r"Get:1 http://deb.debian.org bookworm InRelease [151 kB]\n 45%%\r 90%%\rno space left\n\n\033]0;title\007\033(B\n"
    )
    stages = (
        WORKS + f"stage_join() {{ printf '{noise}'; until_true 0 'the disk has not come back' false; }}\n"
    )
    assert run(machine, tmp_path, stages).returncode == 1
    lines = NodeBoot.objects.get().message.splitlines()
    assert lines == [
        "at the stage joined: the disk has not come back within 0 s",
        "Error: disk is full",
        "no space left",
        "the disk has not come back within 0 s",
    ]


def test_a_long_failure_keeps_its_cause(machine: Guest, tmp_path: Path) -> None:
    stages = WORKS + "stage_join() { printf '%0300d\\n' $(seq 40); why='the disk is full'; false; }\n"
    assert run(machine, tmp_path, stages).returncode == 1
    assert NodeBoot.objects.get().message.splitlines()[0] == "at the stage joined: the disk is full"


def test_a_failure_inside_of_a_question_is_told_once_and_by_the_stage(machine: Guest, tmp_path: Path) -> None:
    stages = WORKS + "stage_join() { local found; found=$(false); echo never; }\n"
    assert run(machine, tmp_path, stages).returncode == 1
    first = NodeBoot.objects.get().message.splitlines()[0]
    assert first == "at the stage joined: false failed"


@pytest.mark.parametrize(
    ("fails", "cause"),
    [
        ("ls /nowhere/at/all", "ls failed: ls: cannot access '/nowhere/at/all': No such file or directory"),
        ('echo "E: no such package"; env false', "env false failed: E: no such package"),
        ("helps() { return 3; }; helps", "the setup stopped and gave no reason"),
        (
            "helps() { ls /nowhere; }; helps",
            "ls failed: ls: cannot access '/nowhere': No such file or directory",
        ),
        ('x="$(/bin/false)"', "false failed"),
        ("true | false", "false failed"),
        ("why='1 of 2 GPUs are seen'; [ 1 = 2 ]", "1 of 2 GPUs are seen"),
    ],
)
def test_a_failure_names_the_program_and_its_reason(
    fails: str, cause: str, machine: Guest, tmp_path: Path
) -> None:
    stages = WORKS + f"stage_packages() {{ why='of an earlier stage'; }}\nstage_join() {{ {fails}; }}\n"
    assert run(machine, tmp_path, stages).returncode == 1
    assert NodeBoot.objects.get().message.splitlines()[0] == f"at the stage joined: {cause}"


def test_a_report_that_could_not_be_sent_is_sent_by_the_timer(machine: Guest, tmp_path: Path) -> None:
    etc = installed(machine, tmp_path)
    right = (etc / "node.env").read_text()
    (etc / "node.env").write_text(right.replace(machine.spec.boots.url, "http://127.0.0.1:9/nowhere"))
    assert run(machine, tmp_path, WORKS + "stage_join() { ls /nowhere; }\n").returncode == 1
    assert (tmp_path / "gpuaas-unsent").stat().st_mode & 0o077 == 0
    (tmp_path / "meta.json").write_text("{}")
    address = f"file://{tmp_path}/meta.json"
    run(machine, tmp_path, WORKS, "gpuaas-upgrade", GPUAAS_METADATA_URL=address)
    assert not NodeBoot.objects.exists(), "the portal is still away"
    (etc / "node.env").write_text(right)
    for _ in range(2):
        done = run(machine, tmp_path, WORKS, "gpuaas-upgrade", GPUAAS_METADATA_URL=address)
        assert done.returncode == 0, done.stderr
    row = NodeBoot.objects.get()
    assert row.stage == "failed"
    assert row.message.splitlines()[0].startswith("at the stage joined: ls failed: ")
    assert not (tmp_path / "gpuaas-unsent").exists()


def test_a_failure_is_on_the_console_in_one_line_without_secrets(machine: Guest, tmp_path: Path) -> None:
    """It is what the site can still read of a machine that does not reach the portal."""
    secret = machine.secrets["agents"]
    stages = WORKS + f"stage_join() {{ why='no mirror has {secret}'; ls /nowhere; }}\n"
    assert run(machine, tmp_path, stages).returncode == 1
    said = (tmp_path / "console").read_text()
    assert (
        said
        == "gpuaas: at the stage joined: ls failed: ls: cannot access '/nowhere': No such file or directory\n"
    )
    assert run(machine, tmp_path, stages, GPUAAS_CONSOLE="/nowhere/console").returncode == 1


def test_a_portal_that_cannot_be_reached_is_on_the_console(machine: Guest, tmp_path: Path) -> None:
    etc = installed(machine, tmp_path)
    text = (etc / "node.env").read_text().replace(machine.spec.boots.url, "http://127.0.0.1:9/nowhere")
    (etc / "node.env").write_text(text)
    assert run(machine, tmp_path, WORKS).returncode == 0
    line = (tmp_path / "console").read_text()
    assert line.startswith("gpuaas: the stage ready could not be reported: curl: (7) ")
    assert console_line(f"boot: done\r\n{line}\nlogin: ")[1]


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (-2490, "it is 41 minutes behind the portal's"),
        (2490, "it is 41 minutes ahead of the portal's"),
        (-8000, "it is 2 hours behind the portal's"),
        (40 * 86_400, "it is 40 days ahead of the portal's"),
        (-100, ""),
        (100, ""),
    ],
)
def test_a_clock_that_is_wrong_by_the_portals_ends_the_boot_first(
    shift: int, words: str, machine: Guest, tmp_path: Path
) -> None:
    installed(machine, tmp_path)
    date = tmp_path / "usr/local/sbin/date"
    date.write_text(
        '#!/bin/sh\ncase $1 in --date=*) exec /bin/date "$@" ;; esac\n'
        f'if [ "$1" = +%s ]; then echo $(($(/bin/date +%s) + {shift})); else exec /bin/date "$@"; fi\n'
    )
    date.chmod(0o755)
    done = run(machine, tmp_path, WORKS)
    row = NodeBoot.objects.get()
    if not words:
        assert (done.returncode, row.stage) == (0, "ready")
        return
    assert (row.stage, row.passed) == ("failed", "")
    first = row.message.splitlines()[0]
    assert first == f"at the stage booted: the clock has not come right within 0 s: {words}"


def test_a_repeated_run_and_a_lost_answer_do_no_harm(machine: Guest, tmp_path: Path) -> None:
    assert run(machine, tmp_path, WORKS).returncode == 0
    assert run(machine, tmp_path, WORKS).returncode == 0
    assert NodeBoot.objects.get().stage == "ready"


def test_a_portal_that_does_not_answer_keeps_no_machine_from_its_work(machine: Guest, tmp_path: Path) -> None:
    etc = installed(machine, tmp_path)
    text = (etc / "node.env").read_text().replace(machine.spec.boots.url, "http://127.0.0.1:9/nowhere")
    (etc / "node.env").write_text(text)
    marker = tmp_path / "joined"
    assert run(machine, tmp_path, WORKS + f"stage_join() {{ touch {marker}; }}\n").returncode == 0
    assert marker.exists()
    assert not NodeBoot.objects.exists()


def test_another_release_in_the_metadata_is_another_boot(machine: Guest, tmp_path: Path) -> None:
    import json

    assert run(machine, tmp_path, WORKS).returncode == 0
    boot = uuid7()
    token = boot_token(machine.spec.boots.seed, cluster=machine.spec.id, node=machine.name, boot=boot)
    meta = {"gpuaas-boot": boot.hex, "gpuaas-release": "1.36.3", "gpuaas-token": token}
    (tmp_path / "meta.json").write_text(json.dumps({"meta": meta}))
    seen = tmp_path / "release"
    stages = WORKS + f'stage_packages() {{ echo "$GPUAAS_RELEASE" > {seen}; }}\n'
    address = f"file://{tmp_path}/meta.json"
    for _ in range(2):  # the second time there is nothing to do
        done = run(machine, tmp_path, stages, "gpuaas-upgrade", GPUAAS_METADATA_URL=address)
        assert done.returncode == 0, done.stderr
    assert seen.read_text().strip() == "1.36.3"
    assert {row.boot: row.stage for row in NodeBoot.objects.all()} == {
        machine.boot: "ready",
        boot.hex: "ready",
    }


@pytest.mark.parametrize("missing", [0, 1])
def test_what_is_no_gpu_is_not_counted_as_one(machine: Guest, tmp_path: Path, missing: int) -> None:
    """A board with eight GPUs has four switches of the same vendor on the bus, and a display card brings its sound."""
    installed(machine, tmp_path)
    assert machine.pool
    bus, gpus = tmp_path / "bus", machine.pool.flavor.gpus
    devices = [("0x10de", "0x030200")] * (gpus - missing)
    devices += [("0x10de", "0x068000"), ("0x10de", "0x040300"), ("0x1234", "0x030000")]
    for number, (vendor, kind) in enumerate(devices):
        (bus / str(number)).mkdir(parents=True)
        (bus / str(number) / "vendor").write_text(f"{vendor}\n")
        (bus / str(number) / "class").write_text(f"{kind}\n")
    stages = (tmp_path / "etc/gpuaas/stages.sh").read_text() + WORKS
    stages += 'stage_gpu_driver() { gpus_expect "$(gpus_on_bus)"; }\n'
    done = run(machine, tmp_path, stages, GPUAAS_BUS=str(bus))
    row = NodeBoot.objects.get()
    assert (done.returncode, row.stage) == ((1, "failed") if missing else (0, "ready"))
    if missing:
        assert row.message.splitlines()[0] == f"at the stage gpu-driver: {gpus - 1} of {gpus} GPUs are seen"
