"""The stages of a boot, run by bash with the machine's own programs played by a table: a stage is told when what it says is so."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from gpuaas.providers.base import ClusterKind
from gpuaas.providers.openstack.clusters.guest import HERE
from gpuaas.providers.openstack.clusters.place import CIDR
from tests.providers.openstack_clusters.stage import guest, installed, spec

K, S = ClusterKind.KUBERNETES, ClusterKind.SLURM
ROLES = [(S, False), (S, True), (K, False), (K, True)]
ALL = ["booted", "packages", "gpu-driver", "joined", "ready"]
SCRIPTS = [HERE / f"{name}.sh" for name in ("boot", "common", "slurm", "k3s", "mesh")]
SECONDS = 300
# time passes when somebody sleeps
CLOCK = "sleep() { SECONDS=$((SECONDS + 60)); }\n"
KNOWN, READY = "nodeInfo.kubeletVersion", 'type=="Ready"'  # what Kubernetes is asked of the node
# a machine on which all is well: what each program says, by the first words of its arguments ("" = whatever they are)
WELL: Mapping[str, str] = {
    "systemctl is-active": "active",
    "systemctl": "",
    "journalctl": "said by the unit",
    "gpuaas-metadata": "",
    "gpuaas-queue": "",
    "apt-get": "",
    "exportfs": "/home 10.0.0.0/16",
    "mountpoint": "",
    "munge": "MUNGE",
    "unmunge": "",
    "mariadb": "1",
    "sacctmgr": "CLUSTER|10.0.0.11",
    "scontrol ping": "Slurmctld(primary) at head is UP",
    "scontrol --oneliner show": "NodeName=x Version=25.05.3",
    "sinfo": "idle",
    "srun --mpi=list": "MPI plugin types are... none pmi2 pmix",
    "nvidia-smi": "GPU 0: one",
    "curl": "",
    "sha256sum": "",
    "chmod": "",
    "mv": "",
    "k3s kubectl get": "ok",
    KNOWN: "vRELEASE+k3s1",
    READY: "True",
}


READS = {"unmunge", "sha256sum"}  # what they are given in a pipe


def boot(
    tmp_path: Path, kind: ClusterKind, of_pool: bool, otherwise: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[str], str, list[str]]:
    """(stages that were told, the last message, commands that were run). Words that begin with "!" are said by failing."""
    made = spec(kind)
    etc = installed(guest(made, made.pools[0] if of_pool else None), tmp_path)
    text = re.sub(
        r"(?<=[ =])/(etc|var|usr/local|usr/lib)/", rf"{tmp_path}/\1/", (etc / "stages.sh").read_text()
    )
    (etc / "stages.sh").write_text(text + CLOCK)
    said = {name: words.replace("RELEASE", made.release) for name, words in {**WELL, **otherwise}.items()}
    tools, told = furnish(tmp_path, said)
    around = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GPUAAS_ETC": str(etc),
        "GPUAAS_LOG": str(tmp_path / "log"),
        "GPUAAS_CONSOLE": str(tmp_path / "console"),
    }
    script = tmp_path / "usr/local/sbin/gpuaas-boot"
    subprocess.run(["bash", script], env=around, timeout=SECONDS, check=False, capture_output=True)
    read = [path.read_text() for path in (told / "stages", told / "message", tools / "commands")]
    return read[0].split(), read[1], read[2].splitlines()


def furnish(root: Path, said: Mapping[str, str]) -> tuple[Path, Path]:
    """(where its programs are, where what it reports is written)."""
    for name in (
        "etc/slurm",
        "etc/environment-modules",
        "etc/munge",
        "etc/default",
        "usr/local/bin",
        "tools",
        "told",
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/nsswitch.conf").write_text(
        "passwd:   files systemd\ngroup: files\nshadow: files\nhosts: files dns\n"
    )
    (root / "etc/slurm/slurm.conf").write_text("ClusterName=CLUSTER\n")
    tools, told = root / "tools", root / "told"
    files = ("etc/fstab", "usr/local/bin/k3s.sums", "told/stages", "told/message", "tools/commands")
    for name in files:
        (root / name).touch()
    words = {
        (f"k3s kubectl --kubeconfig*{name}" if name in (KNOWN, READY) else name): said[name] for name in said
    }
    for program in {name.split()[0] for name in words}:
        play(tools / program, {name: words[name] for name in words if name.split()[0] == program})
    play_report(tools / "gpuaas-report", told)
    play_install(tools / "install")
    return tools, told


def play(path: Path, said: Mapping[str, str]) -> None:
    reads = "cat > /dev/null" if path.name in READS else ""
    lines = [
        "#!/bin/bash",
        reads,
        f'echo "{path.name} $*" >> {path.parent}/commands',
        f'case "{path.name} $*" in',
    ]
    for name in sorted(said, key=len, reverse=True):
        words = said[name]
        pattern = "*".join(f"'{part}'" for part in name.split("*"))
        lines.append(f"{pattern}*) echo '{words.removeprefix('!')}'; exit {int(words.startswith('!'))} ;;")
    path.write_text("\n".join([*lines, "esac"]) + "\n")
    path.chmod(0o755)


def play_report(path: Path, told: Path) -> None:
    path.write_text(
        f'#!/bin/bash\necho "$1" >> {told}/stages\nif [ $# = 2 ]; then printf %s "$2" > {told}/message; fi\n'
    )
    path.chmod(0o755)


def play_install(path: Path) -> None:
    """The real one, as whoever runs the tests."""
    path.write_text(
        '#!/bin/bash\nwords=()\nwhile [ $# -gt 0 ]; do case $1 in --owner | --group) shift 2 ;; *) words+=("$1"); shift ;; esac; done\n'
        'exec /usr/bin/install "${words[@]}"\n'
    )
    path.chmod(0o755)


@pytest.mark.parametrize(("kind", "of_pool"), ROLES)
def test_a_machine_on_which_all_is_well_passes_every_stage(
    kind: ClusterKind, of_pool: bool, tmp_path: Path
) -> None:
    stages, message, _ = boot(tmp_path, kind, of_pool)
    assert stages == (ALL if of_pool else [stage for stage in ALL if stage != "gpu-driver"]), message


@pytest.mark.parametrize(("kind", "of_pool"), ROLES)
def test_each_unit_that_is_started_is_seen_to_run_before_the_stage_is_told(
    kind: ClusterKind, of_pool: bool, tmp_path: Path
) -> None:
    """`systemctl restart` says yes to a unit that it skips: so each in its turn is one that was."""
    _, _, commands = boot(tmp_path, kind, of_pool)
    started = {line.split()[-1] for line in commands if line.startswith("systemctl restart")}
    assert started
    for number, unit in enumerate(sorted(started)):
        root = tmp_path / str(number)
        root.mkdir()
        otherwise = {f"systemctl is-active {unit}": "!inactive", f"systemctl is-active --quiet {unit}": "!"}
        stages, message, _ = boot(root, kind, of_pool, otherwise)
        told = "packages" if unit == "munge" else "joined"
        assert stages[-1] == "failed"
        assert told not in stages
        first = message.splitlines()[0]
        assert re.fullmatch(
            rf"at the stage {told}: {unit} has not come up within [0-9]+ s: systemd reports it as inactive",
            first,
        ), first
        assert "said by the unit" in message, "the unit's own words are the evidence"


@pytest.mark.parametrize(("kind", "of_pool"), ROLES)
def test_a_machine_whose_metadata_stay_open_is_not_set_up(
    kind: ClusterKind, of_pool: bool, tmp_path: Path
) -> None:
    stages, message, commands = boot(
        tmp_path, kind, of_pool, {"gpuaas-metadata": "!RTNETLINK answers: No buffer space"}
    )
    assert stages == ["failed"]
    assert (
        message.splitlines()[0]
        == "at the stage booted: gpuaas-metadata failed: RTNETLINK answers: No buffer space"
    )
    assert [line for line in commands if not line.startswith("gpuaas-metadata")] == []


FALSE = [
    (S, False, {"exportfs": ""}, "joined"),
    (S, False, {"mariadb": "!ERROR 2002"}, "joined"),
    (S, False, {"sacctmgr": "!Connection refused"}, "joined"),
    (S, False, {"scontrol ping": "Slurmctld(primary) at head is DOWN"}, "joined"),
    (S, False, {"sacctmgr": "CLUSTER|"}, "ready"),
    (S, True, {"unmunge": "!Invalid credential"}, "packages"),
    (S, True, {"nvidia-smi": "!no devices"}, "gpu-driver"),
    (S, True, {"scontrol --oneliner show": "!Node x not found"}, "joined"),
    (S, True, {"scontrol --oneliner show": "NodeName=x Version=24.11.1"}, "joined"),
    (S, True, {"sinfo": "down"}, "ready"),
    (S, True, {"sinfo": "idle*"}, "ready"),
    (S, True, {"sinfo": "drained"}, "ready"),
    (S, True, {"sinfo": ""}, "ready"),
    (K, True, {KNOWN: "!nodes not found"}, "joined"),
    (K, True, {KNOWN: "v1.30.0+k3s1"}, "joined"),
    (K, True, {READY: "False"}, "ready"),
    (K, False, {"k3s kubectl get": "!the server is not ready"}, "ready"),
]


@pytest.mark.parametrize(("kind", "of_pool", "otherwise", "stage"), FALSE)
def test_a_stage_that_is_not_so_is_not_told(
    kind: ClusterKind, of_pool: bool, otherwise: dict[str, str], stage: str, tmp_path: Path
) -> None:
    stages, message, _ = boot(tmp_path, kind, of_pool, otherwise)
    assert stages[-1] == "failed"
    assert stage not in stages
    assert ALL[ALL.index(stage) - 1] in stages or stage == "joined"
    assert message.startswith(f"at the stage {stage}: ")
    assert next(iter(otherwise.values())).lstrip("!") in message, "what it was told instead is the evidence"
    functions = re.findall(r"^([a-z_]+)\(\)", "".join(path.read_text() for path in SCRIPTS), re.MULTILINE)
    assert not [name for name in functions if "_" in name and name in message], "nobody knows our functions"


def test_a_full_disk_is_the_cause_of_whatever_fails(tmp_path: Path) -> None:
    full = {
        "df": "Avail Mounted on\n0 /\n52 /var",
        "apt-get --quiet": "!E: Write error",
        "apt-get install": "!E: Write error",
    }
    stages, message, _ = boot(tmp_path, S, True, full)
    assert stages == ["booted", "failed"]
    assert (
        message.splitlines()[0] == "at the stage packages: the disk of / is full, so apt-get install failed"
    )


def test_a_disk_that_was_full_for_a_moment_is_the_cause(tmp_path: Path) -> None:
    """apt takes back what it could not finish, so there is room again when it fails."""
    lines = "!dpkg: error processing archive mariadb: failed to write (No space left on device)"
    full = {"apt-get --quiet": "", "apt-get install": lines}
    _, message, _ = boot(tmp_path, S, True, full)
    assert message.splitlines() == [
        "at the stage packages: the disk is full, so apt-get install failed",
        lines.removeprefix("!"),
    ]


def test_what_the_head_writes_to_is_there(tmp_path: Path) -> None:
    """Debian has no /etc/exports.d."""
    boot(tmp_path, S, False)
    assert (tmp_path / "etc/exports.d/gpuaas.exports").read_text() == f"/home {CIDR}(rw,no_subtree_check)\n"


@pytest.mark.parametrize("of_pool", [False, True])
def test_logins_are_looked_up_beside_the_systems_own_accounts(of_pool: bool, tmp_path: Path) -> None:
    """Workers look at what the head publishes at /home, and again after a stage that is repeated."""
    boot(tmp_path, S, of_pool)
    again = f". {tmp_path}/etc/gpuaas/node.env; . {tmp_path}/etc/gpuaas/stages.sh; logins_known"
    subprocess.run(["bash", "-euc", again], check=True)
    lines = (tmp_path / "etc/nsswitch.conf").read_text().splitlines()
    assert lines == [
        "passwd:   files systemd extrausers",
        "group: files extrausers",
        "shadow: files extrausers",
        "hosts: files dns",
    ]
    links = {path.name: str(path.readlink()) for path in (tmp_path / "var/lib").glob("extrausers/*")}
    published = {name: f"/home/.gpuaas/{name}" for name in ("passwd", "group")}
    assert links == (published if of_pool else {})


def test_slurm_loads_pmix_by_the_name_that_it_knows(tmp_path: Path) -> None:
    """Debian's libpmix2 has libpmix.so.2 only, its Slurm asks for libpmix.so."""
    there = tmp_path / "usr/lib/x86_64-linux-gnu/pmix2/lib"
    there.mkdir(parents=True)
    (there / "libpmix.so.2").write_text("the library")
    boot(tmp_path, S, True)
    assert (there / "libpmix.so").read_text() == "the library"


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ("MPI plugin types are...\n\tnone\n\tpmix\n\tpmi2", 1),
        ("MPI plugin types are...\n\tnone\n\tpmi2", 0),
        ("!srun: error: mpi/pmix_v4: cannot load libpmix.so", 0),
    ],
)
def test_mpi_starts_by_pmix_where_slurm_can(said: str, lines: int, tmp_path: Path) -> None:
    """A default that cannot be loaded would let no job start. The stage may be repeated."""
    boot(tmp_path, S, False, {"srun --mpi=list": said})
    boot(tmp_path, S, False, {"srun --mpi=list": said})
    assert (tmp_path / "etc/slurm/slurm.conf").read_text().count("MpiDefault=pmix\n") == lines


def test_a_head_is_ready_when_members_can_come_in_and_waits_for_no_portal(tmp_path: Path) -> None:
    stages, _, commands = boot(tmp_path, S, False, {"gpuaas-queue": "!curl: (7) Failed to connect"})
    assert stages[-1] == "ready"
    asked = [
        line.split()[0]
        for line in commands
        if line.startswith(("gpuaas-queue", "systemctl enable --quiet --now"))
    ]
    assert asked[0] == "gpuaas-queue", "before the timer"


@pytest.mark.parametrize(
    "reason", ["none", "unhealthy: 0 of 8 GPUs are seen", "gpuaas", "gpuaas instead of Kill task failed"]
)
def test_a_machine_that_replaces_a_drained_one_works_unless_it_is_to_go(reason: str, tmp_path: Path) -> None:
    _, _, commands = boot(tmp_path, S, True, {"sinfo --noheader*Reason": reason})
    resumed = [
        line for line in commands if line.startswith("scontrol update") and line.endswith("state=resume")
    ]
    assert len(resumed) == (0 if reason.startswith("gpuaas") else 1)
    assert (tmp_path / "etc/gpuaas/joined").exists()


@pytest.mark.parametrize("file", ["k3s", "sums"])
def test_a_download_that_fails_is_told_with_its_address(file: str, tmp_path: Path) -> None:
    address = "https://github.com/k3s-io/k3s/releases/download/v1.35.6%2Bk3s1/"
    name = "k3s" if file == "k3s" else "sha256sum-amd64.txt"
    called = f"curl --silent --show-error --fail --location --retry 5 --output {tmp_path}/usr/local/bin/k3s."
    said = "!curl: (22) The requested URL returned error: 404"
    _, message, _ = boot(tmp_path, K, True, {called + ("new" if file == "k3s" else "sums"): said})
    assert message.splitlines()[0] == (
        f"at the stage packages: could not download {address}{name}: curl: (22) The requested URL returned error: 404"
    )
