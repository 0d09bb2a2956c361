"""Jobs whose tasks an MPI launcher starts: their pods, and the Secret of each attempt on a real API server."""

import base64
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import FILES_AT, MPI, Change, JobPhase, JobSpec
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.jobs import BATCH, job_of
from gpuaas.providers.kubernetes.launcher import START, files_of, secret_name
from tests.lab.fixtures import carry_out, until
from tests.lab.jobs import seen
from tests.providers.kubernetes.conftest import Room
from tests.providers.kubernetes.test_job_tasks import GANG, NAME, variables

LAUNCHED = replace(GANG, launcher=MPI, command=("mpirun", "python"), arguments=("train.py", "it's"))


def test_each_container_runs_our_script_with_the_command_as_its_words() -> None:
    spec = job_of(LAUNCHED)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["command"] == ["/bin/sh", f"{FILES_AT}/start"]
    assert container["args"] == ["mpirun", "python", "train.py", "it's"]
    assert {"name": "launcher", "mountPath": FILES_AT, "readOnly": True} in container["volumeMounts"]
    (volume,) = (each for each in spec["volumes"] if each["name"] == "launcher")
    assert volume["secret"] == {"secretName": f"{NAME}-launcher-1", "defaultMode": 0o440}


def test_without_a_launcher_nothing_of_it_is_there() -> None:
    (container,) = job_of(GANG)["spec"]["template"]["spec"]["containers"]
    assert container["command"] == list(GANG.command)
    assert not [name for name in variables(GANG) if "MPI" in name or "HYDRA" in name]


def test_hosts_are_found_by_variables_which_the_order_may_set_itself() -> None:
    found = variables(LAUNCHED)
    assert found["OMPI_MCA_orte_default_hostfile"] == found["PRTE_MCA_prte_default_hostfile"]
    assert found["I_MPI_HYDRA_HOST_FILE"] == found["HYDRA_HOST_FILE"]
    own = variables(replace(LAUNCHED, variables={"HYDRA_IFACE": "ib0"}))
    assert own["HYDRA_IFACE"] == "ib0"


def test_its_files_name_all_hosts_with_a_slot_for_each_gpu() -> None:
    files = files_of(LAUNCHED)
    assert files["hostfile"].splitlines() == [f"{NAME}-{each} slots=2" for each in range(3)]
    assert files["hydra_hostfile"].splitlines() == [f"{NAME}-{each}:2" for each in range(3)]
    assert files["others"].split() == [f"{NAME}-1", f"{NAME}-2"]
    assert files_of(replace(LAUNCHED, gpus=0))["hostfile"].splitlines()[0] == f"{NAME}-0 slots=1"
    assert files["key"] != files_of(LAUNCHED)["key"]
    kind, public = files["authorized_keys"].split()
    assert (kind, files["known_hosts"]) == ("ssh-ed25519", f"job ssh-ed25519 {public}\n")


# -- the script, with programs of this machine in place of OpenSSH ----------------------------------------------------

SSH = """\
#!/bin/sh
shift 2
echo "$@" >> {folder}/asked
[ ! -e {folder}/refuses ] || {{ cat {folder}/refuses >&2; exit 255; }}
[ "$2" = true ] || [ ! -e {folder}/lost ] || {{ echo "Connection refused" >&2; exit 255; }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {
        "ssh": SSH.format(folder=tmp_path),
        "sshd": "#!/bin/sh\nsleep 60\n",
        "sleep": "#!/bin/sh\n[ $1 = 60 ] && exec /bin/sleep 60\nexec /bin/sleep 0.01\n",
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "others").write_text("train-1\ntrain-2\n")
    return tmp_path


def script_runs(folder: Path, number: int, *command: str, path: str = "") -> "subprocess.Popen[str]":
    script = START.format(at=folder).replace("/dev/shm/gpuaas", f"{folder}/state")
    (folder / "start").write_text(script)
    return subprocess.Popen(
        ["/bin/sh", str(folder / "start"), *command],
        env={"PATH": path or f"{folder}/bin:/usr/bin:/bin", "JOB_COMPLETION_INDEX": str(number)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def over(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Its exit code and what it wrote; the server that it began holds its pipes open."""
    code = process.wait(timeout=60)
    subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=False)
    out, error = process.communicate(timeout=60)
    return code, out, error


def test_task_0_enters_all_runs_the_command_and_ends_them(folder: Path) -> None:
    code, out, error = over(script_runs(folder, 0, "sh", "-c", "echo $0 $1", "it's", "a b"))
    assert (code, out, error) == (0, "it's a b\n", "")
    asked = (folder / "asked").read_text().splitlines()
    ends = f": > {folder}/state/ended"
    assert asked == ["train-1 true", "train-2 true", f"train-1 {ends}", f"train-2 {ends}"]


def test_its_exit_code_is_that_of_the_command(folder: Path) -> None:
    assert over(script_runs(folder, 0, "sh", "-c", "exit 5"))[0] == 5


def test_a_task_that_refuses_for_good_is_not_waited_for(folder: Path) -> None:
    (folder / "refuses").write_text("job@train-1: Permission denied (publickey).\n")
    code, out, error = over(script_runs(folder, 0, "echo", "never"))
    assert (code, out) == (1, "")
    assert "train-1 cannot be entered: job@train-1: Permission denied" in error


def test_one_that_cannot_be_ended_fails_what_succeeded(folder: Path) -> None:
    (folder / "lost").touch()
    code, out, error = over(script_runs(folder, 0, "echo", "done"))
    assert (code, out) == (1, "done\n")
    assert "train-2 cannot be entered: Connection refused" in error
    assert over(script_runs(folder, 0, "sh", "-c", "exit 5"))[0] == 5


def test_the_signal_that_ends_a_pod_reaches_the_command(folder: Path) -> None:
    process = script_runs(
        folder,
        0,
        "sh",
        "-c",
        "trap 'echo saved; exit 3' TERM; : > $0/ready; while :; do sleep 1; done",
        str(folder),
    )
    until((folder / "ready").exists, "the command runs", seconds=10)
    process.terminate()
    assert over(process)[:2] == (3, "saved\n")


def test_it_also_ends_while_the_others_are_waited_for(folder: Path) -> None:
    (folder / "refuses").write_text("Connection refused")
    process = script_runs(folder, 0, "echo", "never")
    until((folder / "asked").exists, "it looks for the others", seconds=10)
    process.terminate()
    assert over(process)[:2] == (143, "")


def test_another_task_ends_with_success_once_it_is_told(folder: Path) -> None:
    process = script_runs(folder, 1)
    until((folder / "state/variables").exists, "it serves", seconds=10)
    (folder / "state/ended").touch()
    assert over(process) == (0, "", "")


def test_another_task_without_its_server_fails(folder: Path) -> None:
    (folder / "bin/sshd").write_text("#!/bin/sh\nexit 1\n")
    code, _, error = over(script_runs(folder, 1))
    assert (code, error) == (1, "launcher: the SSH server has ended\n")


def test_an_image_without_ssh_says_so(folder: Path) -> None:
    (folder / "bin/ssh").unlink()
    code, _, error = over(script_runs(folder, 0, "true", path=f"{folder}/bin"))
    assert (code, "install the server and the client of OpenSSH" in error) == (127, True)


# -- on a real API server ------------------------------------------------------------------------------------------


def spec_in(room: Room) -> JobSpec:
    name = f"{NAME}-{uuid.uuid4().hex[:4]}"
    sizes = {"tasks": 2, "at_once": 2, "gpus": 1, "vcpus": 1, "memory_gib": 1}
    return replace(LAUNCHED, workspace=room.ref, name=name, **sizes)  # type: ignore[arg-type]


def secret_at(room: Room, spec: JobSpec) -> str:
    return f"{room.path('secrets')}/{secret_name(spec)}"


@pytest.mark.lab
def test_a_step_that_is_repeated_keeps_the_key_of_the_attempt(room: Room) -> None:
    spec, site = spec_in(room), room.driver.jobs
    carry_out(site, Change.CREATE, spec)
    made = room.admin.get(secret_at(room, spec))
    carry_out(site, Change.CREATE, spec)
    assert room.admin.get(secret_at(room, spec)) == made
    job = room.admin.get(f"{room.path('jobs', BATCH)}/{spec.name}")
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    # the portal was killed after the Job alone was made
    room.admin.delete(secret_at(room, spec))
    carry_out(site, Change.CREATE, spec)
    # at the lab the pods run for one second
    ran = JobPhase.RUNNING, JobPhase.SUCCEEDED
    seen(site, spec, lambda each: each.phase in ran, "the guards admit its pods")
    again = replace(spec, attempt=2)
    carry_out(site, Change.CREATE, again)
    keys = base64.b64decode(room.admin.get(secret_at(room, again))["data"]["key"])
    assert keys != base64.b64decode(made["data"]["key"])
    until(lambda: room.admin.find(secret_at(room, spec)) is None, "the first one has ended with its Job")
    carry_out(site, Change.DELETE, again)
    assert room.admin.find(secret_at(room, again)) is None


@pytest.mark.lab
def test_members_change_nothing_of_it(room: Room) -> None:
    spec, site = spec_in(room), room.driver.jobs
    carry_out(site, Change.CREATE, spec)
    secret, mine = secret_at(room, spec), base64.b64encode(b"mine").decode()
    change: Object = {"data": {"authorized_keys": mine}}
    for unwanted in (lambda: room.tenant.merge(secret, change), lambda: room.tenant.delete(secret)):
        with pytest.raises(Permanent, match="belongs to the portal"):
            unwanted()
    own: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own"}, "data": {}}
    room.tenant.create(room.path("secrets"), own)
    room.tenant.merge(f"{room.path('secrets')}/own", change)
    room.tenant.delete(f"{room.path('secrets')}/own")
    carry_out(site, Change.DELETE, spec)


@pytest.mark.lab
def test_a_secret_of_its_name_that_a_member_made_is_none_of_ours(room: Room) -> None:
    spec, site = spec_in(room), room.driver.jobs
    theirs: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret_name(spec)}}
    room.tenant.create(room.path("secrets"), theirs)
    with pytest.raises(Permanent, match="another Secret of the name"):
        site.perform(Change.CREATE, spec, "start")
    room.tenant.delete(secret_at(room, spec))
    carry_out(site, Change.CREATE, spec)
    carry_out(site, Change.DELETE, spec)
