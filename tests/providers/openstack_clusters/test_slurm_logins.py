"""What a head does with the people of an answer, with the machine's own programs played: it ends the same however often it is killed."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.providers.base import ClusterKind
from gpuaas.providers.openstack.clusters import slurm_logins
from gpuaas.providers.openstack.clusters.slurm_logins import (
    Association,
    Login,
    accounting,
    associations_read,
    databases,
    logins_merge,
)
from tests.providers.openstack_clusters.stage import files, guest, spec

POOLS = [
    {"pool": "small", "gpus": 2, "workers": 1, "machines": 3},
    {"pool": "cpu", "gpus": 0, "workers": 1, "machines": 1},
]
ALICE = {"name": "alice", "uid": 20001, "admitted": True}
BOB = {"name": "bob", "uid": 20002, "admitted": True}
BOB_OUT = {**BOB, "admitted": False}
PROGRAMS = ("getent", "pkill", "chown", "sacctmgr", "squeue", "scancel")


class Machine:
    """A head below a folder. `does`: what each program says; "!" = it fails."""

    def __init__(self, root: Path) -> None:
        self.root, self.etc, self.tools = root, root / "etc/gpuaas", root / "tools"
        for folder in (self.etc, self.tools, root / "etc/skel", root / "home"):
            folder.mkdir(parents=True)
        (root / "etc/skel/.profile").write_text("umask 022\n")
        self.says: dict[str, str] = {"getent": "root:x:0:0::/root:/bin/sh\nmysql:x:105:112::/:/bin/false\n"}

    def run(self, *logins: Mapping[str, Any], finish: bool = False, account: str = "weather-lm") -> int:
        for name in PROGRAMS:
            said = self.says.get(name, "")
            (self.tools / f"{name}.said").write_text(said.lstrip("!"))
            fails = "exit 1" if said.startswith("!") else "exit 0"
            (self.tools / name).write_text(
                f'#!/bin/sh\necho "{name} $*" >> {self.root}/done\ncat {self.tools}/{name}.said\n{fails}\n'
            )
            (self.tools / name).chmod(0o755)
        (self.root / "done").write_text("")
        around = {"PATH": f"{self.tools}:{os.environ['PATH']}"}
        policy = "finish" if finish else "cancel"
        answer = json.dumps({"pools": POOLS, "logins": {"account": account, "logins": logins}})
        command = [sys.executable, slurm_logins.__file__, str(self.etc), "c-train", policy, str(self.root)]
        done = subprocess.run(command, input=answer, env=around, text=True, capture_output=True, check=False)
        return done.returncode

    @property
    def done(self) -> list[str]:
        asked = ("getent", "chown", "sacctmgr --noheader", "squeue")
        lines = (self.root / "done").read_text().splitlines()
        return [line for line in lines if not line.startswith(asked)]

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    @property
    def principals(self) -> list[str]:
        return sorted(path.name for path in (self.root / "etc/ssh/gpuaas_principals").iterdir())

    @property
    def told(self) -> list[str]:
        found: list[str] = json.loads(self.text("etc/gpuaas/logins.json"))
        return found

    def state(self) -> dict[str, str]:
        paths = [path for path in self.root.rglob("*") if path.is_file() and self.tools not in path.parents]
        return {str(path.relative_to(self.root)): path.read_text() for path in paths if path.name != "done"}


# all of a project write there; of the applications each may remove only their own
TEAMS = {"shared": "0o2770", "apps": "0o3775", "apps/modules": "0o3775"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_members_get_a_user_a_home_a_principal_and_an_association(machine: Machine) -> None:
    assert machine.run(ALICE, BOB) == 0
    assert machine.text("var/lib/extrausers/passwd").splitlines() == [
        "alice:x:20001:20001::/home/alice:/bin/bash",
        "bob:x:20002:20002::/home/bob:/bin/bash",
    ]
    assert machine.text("var/lib/extrausers/group").splitlines() == [
        "members:x:20000:alice,bob",
        "alice:x:20001:",
        "bob:x:20002:",
    ]
    for name in ("passwd", "group"):
        assert machine.text(f"home/.gpuaas/{name}") == machine.text(f"var/lib/extrausers/{name}"), (
            "for workers"
        )
    assert not (machine.root / "home/.gpuaas/shadow").exists()
    home = machine.root / "home/alice"
    assert ((home / ".profile").exists(), home.stat().st_mode & 0o777) == (True, 0o700)
    modes = {name: oct((machine.root / "home" / name).stat().st_mode & 0o7777) for name in TEAMS}
    assert modes == TEAMS
    owned = [line for line in machine.text("done").splitlines() if line.startswith("chown root:20000")]
    assert [line.rpartition("/home/")[2] for line in owned] == ["shared", "apps/modules", "apps"]
    assert machine.principals == ["alice", "bob"]
    assert machine.text("etc/ssh/gpuaas_principals/alice") == "alice\n"
    where = "where cluster=c-train account=weather-lm"
    assert machine.done == [
        "sacctmgr --immediate add account weather-lm cluster=c-train description=project organization=project",
        f"sacctmgr --immediate modify account {where} set GrpTRES=gres/gpu=6",
        "sacctmgr --immediate add user alice cluster=c-train account=weather-lm defaultaccount=weather-lm",
        "sacctmgr --immediate add user bob cluster=c-train account=weather-lm defaultaccount=weather-lm",
    ]
    assert machine.told == ["alice", "bob"]


def test_nothing_is_done_again(machine: Machine) -> None:
    machine.run(ALICE)
    machine.says["sacctmgr"] = "root|||\nroot|root||\nweather-lm||cpu=9,gres/gpu=6|\nweather-lm|alice||\n"
    before = machine.state()
    assert machine.run(ALICE) == 0
    assert (machine.done, machine.state()) == ([], before)


def test_who_is_removed_is_out_and_nothing_of_theirs_is_lost(machine: Machine) -> None:
    machine.run(ALICE, BOB)
    machine.says |= {
        "sacctmgr": "weather-lm||gres/gpu=6|\nweather-lm|alice||\nweather-lm|bob||\n",
        "squeue": "alice R\nbob R\nbob PD\nroot R\n",
    }
    assert machine.run(ALICE, BOB_OUT) == 0
    assert machine.principals == ["alice"]
    assert machine.text("var/lib/extrausers/shadow").splitlines() == [
        "alice:!:1:0:99999:7:::",
        "bob:!:1:0:99999:7::1:",
    ], "an account that expired in 1970 is shut for keys and timers too"
    assert "bob:x:20002" in machine.text("home/.gpuaas/passwd"), "workers know the name of their files"
    assert "members:x:20000:alice\n" in machine.text("var/lib/extrausers/group")
    assert (machine.root / "home/bob/.profile").exists()
    assert machine.done == [
        "pkill --signal KILL --uid 20002",
        "sacctmgr --immediate modify user where cluster=c-train account=weather-lm name=bob set MaxJobs=0 MaxSubmitJobs=0",
        "scancel --user=bob",
    ]
    assert machine.told == ["alice"]


def test_running_jobs_are_left_where_the_template_says_so(machine: Machine) -> None:
    machine.run(BOB)
    machine.says["squeue"] = "bob R\n"
    machine.run(BOB_OUT, finish=True)
    assert not [line for line in machine.done if line.startswith("scancel")]
    machine.says["squeue"] = "bob R\nbob PD\n"
    machine.run(BOB_OUT, finish=True)
    assert machine.done[-1] == "scancel --user=bob --state=PENDING"


def test_who_comes_back_is_let_in_again(machine: Machine) -> None:
    machine.run(BOB)
    (machine.root / "home/bob/work").write_text("kept")
    machine.run(BOB_OUT)
    machine.says["sacctmgr"] = "weather-lm||gres/gpu=6|\nweather-lm|bob||0\n"
    machine.run(BOB)
    assert machine.done == [
        "sacctmgr --immediate modify user where cluster=c-train account=weather-lm name=bob set MaxJobs=-1 MaxSubmitJobs=-1"
    ]
    assert (machine.principals, machine.told) == (["bob"], ["bob"])
    assert machine.text("home/bob/work") == "kept"


def test_who_is_not_in_the_answer_is_locked_and_not_forgotten(machine: Machine) -> None:
    machine.run(BOB)
    machine.run(ALICE)
    assert "bob:!:1:0:99999:7::1:" in machine.text("var/lib/extrausers/shadow")
    assert machine.principals == ["alice"]


@pytest.mark.parametrize("broken", ["sacctmgr", "squeue"])
def test_a_slurm_that_does_not_answer_keeps_nobody_in(machine: Machine, broken: str) -> None:
    machine.run(BOB)
    machine.says[broken] = "!"
    assert machine.run(ALICE, BOB_OUT) != 0
    assert (machine.principals, machine.told) == (["alice"], []), "alice's jobs would be refused yet"
    assert "bob:!:1:0:99999:7::1:" in machine.text("var/lib/extrausers/shadow")
    machine.says[broken] = ""
    assert machine.run(ALICE, BOB_OUT) == 0
    assert machine.told == ["alice"]


def test_all_of_a_session_is_ended_at_once(machine: Machine) -> None:
    """Programs that fork faster than they are looked for end, too."""
    machine.run(BOB)
    session = machine.root / "sys/fs/cgroup/user.slice/user-20002.slice"
    session.mkdir(parents=True)
    machine.run(BOB_OUT)
    assert (session / "cgroup.kill").read_text() == "1"


def test_a_disk_that_takes_no_files_keeps_nobody_in(machine: Machine) -> None:
    machine.run(BOB)
    (machine.root / "var/lib/extrausers/.shadow.half").mkdir()
    machine.says["squeue"] = "bob R\n"
    assert machine.run(BOB_OUT) != 0
    assert machine.principals == []
    assert "pkill --signal KILL --uid 20002" in machine.done
    assert "scancel --user=bob" in machine.done


def test_a_home_that_cannot_be_made_keeps_nobody_in(machine: Machine) -> None:
    machine.run(BOB)
    machine.says |= {"chown": "!", "squeue": "bob R\n"}
    assert machine.run(ALICE, BOB_OUT) != 0
    assert "scancel --user=bob" in machine.done
    assert machine.told == ["bob"], "what was told before"


def test_what_the_system_uses_is_not_taken(machine: Machine) -> None:
    wrong: Sequence[Mapping[str, Any]] = [
        {"name": "mysql", "uid": 20003, "admitted": True},
        {"name": "bob", "uid": 0, "admitted": True},
        {"name": "../x", "uid": 20004, "admitted": True},
        {"name": "carol", "uid": 20001, "admitted": True},
    ]
    machine.run(ALICE)
    machine.run(ALICE, *wrong)
    assert machine.principals == ["alice"]
    assert len(machine.text("var/lib/extrausers/passwd").splitlines()) == 1


def test_a_login_keeps_its_number() -> None:
    given_now = [{"name": "bob", "uid": 20009, "admitted": True}]
    assert logins_merge(given_now, {"bob": 20002}, ()) == [Login("bob", 20002, admitted=False)]


def test_a_cluster_that_is_nobodys_lets_nobody_in(machine: Machine) -> None:
    assert machine.run(account="") == 0
    assert (machine.done, machine.told) == ([], [])


@pytest.mark.parametrize("program", ["chown", "getent", "sacctmgr"])
def test_a_run_that_dies_is_finished_by_the_next(machine: Machine, program: str, tmp_path: Path) -> None:
    other = Machine(tmp_path / "other")
    other.run(ALICE, BOB_OUT)
    machine.says[program] = f"!{machine.says.get(program, '')}"
    assert machine.run(ALICE, BOB_OUT) != 0
    machine.says[program] = machine.says[program].lstrip("!")
    assert machine.run(ALICE, BOB_OUT) == 0
    assert {
        path: text for path, text in machine.state().items() if not path.startswith("other/")
    } == other.state()


NAMES = st.sampled_from(["alice", "bob", "carol", "dave"])
PEOPLE = st.lists(st.tuples(NAMES, st.booleans()), unique_by=lambda one: one[0])


@given(PEOPLE, PEOPLE)
def test_nobody_who_was_there_is_lost_and_only_the_admitted_are_open(
    before: list[tuple[str, bool]], now: list[tuple[str, bool]]
) -> None:
    uids = {"alice": 20001, "bob": 20002, "carol": 20003, "dave": 20004}
    there = {name: uids[name] for name, _ in before}
    logins = logins_merge(
        [{"name": name, "uid": uids[name], "admitted": yes} for name, yes in now], there, ()
    )
    assert {one.name for one in logins} == set(there) | {name for name, _ in now}
    assert {one.name for one in logins if one.admitted} == {name for name, yes in now if yes}
    shadow = databases(logins)["shadow"].splitlines()
    assert [line.split(":")[7] == "" for line in shadow] == [one.admitted for one in logins]
    commands = list(accounting([], "c", "p", 4, logins))
    have = [Association("p", "", "4", closed=False)]
    have += [Association("p", one.name, "", closed=not one.admitted) for one in logins]
    assert len(commands) == 2 + sum(one.admitted for one in logins)
    assert list(accounting(have, "c", "p", 4, logins)) == []


def test_associations_are_read_as_sacctmgr_writes_them() -> None:
    assert associations_read("p||cpu=4,gres/gpu=8|\np|bob||0\n") == [
        Association("p", "", "8", closed=False),
        Association("p", "bob", "", closed=True),
    ]


def test_the_head_trusts_certificates_by_the_principals_that_this_writes() -> None:
    head = files(guest(spec(ClusterKind.SLURM)))
    assert (
        "AuthorizedPrincipalsFile /etc/ssh/gpuaas_principals/%u\n"
        in head["/etc/ssh/sshd_config.d/50-gpuaas.conf"]
    )
    assert not [path for path in head if path.startswith("/etc/ssh/gpuaas_principals")], (
        "at first nobody comes in"
    )
    assert head["/usr/local/sbin/gpuaas-logins"].startswith("#!/usr/bin/python3\n")
