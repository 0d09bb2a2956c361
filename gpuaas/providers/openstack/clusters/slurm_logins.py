#!/usr/bin/python3
"""Run twice a minute on the head of a Slurm cluster, as gpuaas-logins ETC CLUSTER cancel|finish: makes the logins of members what
the portal's answer (standard input) says, on the machines and in Slurm's accounting.

The head runs this very file, so it imports nothing but the standard library. It may be killed at any point and run again: everything
is compared with what is there, and files are replaced whole. Nobody who was ever let in is removed, for files and jobs are theirs:
the login is locked, and the home stays. Those who may not enter are shut out before anybody else is let in, and before Slurm is asked.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOGIN_FORM = re.compile(r"[a-z][a-z0-9-]{0,31}")
UIDS, LAST_UID = 20_001, 59_999
GROUP, GROUP_ID = "members", 20_000  # of everybody who may enter; /home/shared and /home/apps are its own
SHELL = "/bin/bash"
EXPIRED = "1"  # a day of 1970
WORLD, OWNER, TEAM = 0o644, 0o640, 0o2770
APPS = 0o3775  # each member installs there, and nobody removes what is another's
Command = Sequence[str]


@dataclass(frozen=True)
class Login:
    name: str
    uid: int
    admitted: bool

    @property
    def home(self) -> str:
        return f"/home/{self.name}"


@dataclass(frozen=True)
class Association:
    """Of Slurm's accounting. user "" = the account itself; closed: starts and accepts no jobs."""

    account: str
    user: str
    gpus: str
    closed: bool


def logins_merge(
    given: Sequence[Mapping[str, Any]], there: Mapping[str, int], foreign: Collection[str]
) -> list[Login]:
    """What is to be on the machine: all of the answer, and those of before, whom it does not name, locked. Left out is what a machine
    must not take: a name of the system's own, and another number for a name that is there."""
    found = {name: Login(name, uid, admitted=False) for name, uid in there.items()}
    for one in given:
        name, uid = str(one["name"]), int(one["uid"])
        fits = LOGIN_FORM.fullmatch(name) and UIDS <= uid <= LAST_UID and name not in foreign
        taken = any(other.uid == uid and other.name != name for other in found.values())
        if not fits or taken or there.get(name, uid) != uid:
            sys.stderr.write(f"the login {name} ({uid}) cannot be on this machine\n")
            continue
        found[name] = Login(name, uid, bool(one["admitted"]))
    return sorted(found.values(), key=lambda login: login.uid)


def databases(logins: Sequence[Login]) -> dict[str, str]:
    """The files of libnss-extrausers. A login has no password; one that is locked has also expired, which every way in asks."""
    passwd = [f"{one.name}:x:{one.uid}:{one.uid}::{one.home}:{SHELL}\n" for one in logins]
    shadow = [f"{one.name}:!:1:0:99999:7::{'' if one.admitted else EXPIRED}:\n" for one in logins]
    team = ",".join(one.name for one in logins if one.admitted)
    groups = [f"{GROUP}:x:{GROUP_ID}:{team}\n", *(f"{one.name}:x:{one.uid}:\n" for one in logins)]
    return {"shadow": "".join(shadow), "group": "".join(groups), "passwd": "".join(passwd)}


def accounting(
    have: Sequence[Association], cluster: str, account: str, gpus: int, logins: Sequence[Login]
) -> Iterator[Command]:
    """For sacctmgr: the project's account with the GPUs of the cluster as its limit, and an association for each person."""
    mine = {row.user: row for row in have if row.account == account}
    where = ("where", f"cluster={cluster}", f"account={account}")
    if "" not in mine:
        yield ("add", "account", account, f"cluster={cluster}", "description=project", "organization=project")
    if "" not in mine or mine[""].gpus != str(gpus):
        yield ("modify", "account", *where, "set", f"GrpTRES=gres/gpu={gpus}")
    for login in logins:
        row = mine.get(login.name)
        if row is None and login.admitted:
            yield (
                "add",
                "user",
                login.name,
                f"cluster={cluster}",
                f"account={account}",
                f"defaultaccount={account}",
            )
        elif row is not None and row.closed == login.admitted:
            most = -1 if login.admitted else 0
            yield (
                "modify",
                "user",
                *where,
                f"name={login.name}",
                "set",
                f"MaxJobs={most}",
                f"MaxSubmitJobs={most}",
            )


def associations_read(text: str) -> list[Association]:
    found = []
    for line in text.splitlines():
        account, user, limits, jobs = line.split("|")
        counted = dict(part.partition("=")[::2] for part in limits.split(","))
        found.append(Association(account, user, counted.get("gres/gpu", ""), closed=jobs == "0"))
    return found


class Head:
    """The machine. root: where its files are, in tests."""

    def __init__(self, root: Path, etc: Path) -> None:
        self._root, self._names = root, etc / "logins.json"
        self._users = root / "var/lib/extrausers"
        self._principals = root / "etc/ssh/gpuaas_principals"
        self._homes = root / "home"
        self._sessions = root / "sys/fs/cgroup/user.slice"

    def there(self) -> dict[str, int]:
        path = self._users / "passwd"
        rows = [line.split(":") for line in path.read_text().splitlines()] if path.exists() else []
        return {row[0]: int(row[2]) for row in rows}

    def foreign(self) -> set[str]:
        """Names of the system's own users and groups."""
        said = [run("getent", "--service=files", kind) for kind in ("passwd", "group")]
        return {line.partition(":")[0] for text in said for line in text.splitlines()}

    def shut(self, logins: Sequence[Login]) -> None:
        """Without its principal no certificate opens a login, and without the account nothing else does. What runs is ended, also if
        the disk takes no files: all processes of a session at once, where the kernel can, so that none gets away by forking."""
        admitted = {one.name for one in logins if one.admitted}
        for path in self._principals.glob("*"):
            if path.name not in admitted:
                path.unlink()
        try:
            for name, text in databases(logins).items():
                replace(self._users / name, text, OWNER if name == "shadow" else WORLD)
        finally:
            self._end([one.uid for one in logins if not one.admitted])

    def _end(self, gone: Sequence[int]) -> None:
        for uid in gone:
            with suppress(OSError):  # there is no session
                (self._sessions / f"user-{uid}.slice/cgroup.kill").write_text("1")
        if gone:
            uids = ",".join(map(str, gone))
            subprocess.run(["pkill", "--signal", "KILL", "--uid", uids], check=False)  # 1: there was nothing

    def open(self, logins: Sequence[Login]) -> None:
        """Workers look at the published files before anybody can start a job there."""
        for name in ("group", "passwd"):
            replace(self._homes / ".gpuaas" / name, (self._users / name).read_text(), WORLD)
        self._folder(self._homes / "shared", TEAM)
        # the inner one first: in a folder that is theirs, members could put a link in its place
        for name in ("apps/modules", "apps"):
            self._folder(self._homes / name, APPS)
        for one in logins:
            if one.admitted:
                self._home(one)
                replace(self._principals / one.name, f"{one.name}\n", WORLD)

    def account(self, cluster: str, account: str, gpus: int, logins: Sequence[Login]) -> None:
        have = associations_read(
            run("sacctmgr", "--noheader", "--parsable2", "list", "associations", f"cluster={cluster}",
                "format=account,user,grptres,maxsubmitjobs")
        )  # fmt: skip
        for command in accounting(have, cluster, account, gpus, logins):
            run("sacctmgr", "--immediate", *command)

    def jobs_end(self, logins: Sequence[Login], *, running: bool) -> None:
        """Of those who are out: what waits always, what runs if it is to."""
        gone = {one.name for one in logins if not one.admitted}
        rows = (
            [line.split() for line in run("squeue", "--noheader", "--format=%u %t").splitlines()]
            if gone
            else []
        )
        waiting = () if running else ("--state=PENDING",)
        for name in sorted({row[0] for row in rows if row[0] in gone and (running or row[1] == "PD")}):
            run("scancel", f"--user={name}", *waiting)

    def report(self, logins: Sequence[Login]) -> None:
        replace(self._names, json.dumps([one.name for one in logins if one.admitted]), WORLD)

    def reported(self) -> set[str]:
        return set(json.loads(self._names.read_text())) if self._names.exists() else set()

    # -- within ------------------------------------------------------------------------------------------------------

    def _home(self, login: Login) -> None:
        """Whole, or not there."""
        home = self._homes / login.name
        if home.exists():
            return
        half = self._homes / f".{login.name}.half"
        run("rm", "--recursive", "--force", str(half))
        run("cp", "--recursive", "--no-target-directory", str(self._root / "etc/skel"), str(half))
        half.chmod(0o700)
        run("chown", "--recursive", f"{login.uid}:{login.uid}", str(half))
        half.rename(home)

    def _folder(self, path: Path, mode: int) -> None:
        """Of the members' group."""
        if not path.exists():
            path.mkdir(mode=0o700, parents=True)
        if path.stat().st_mode & 0o7777 != mode:
            run("chown", f"root:{GROUP_ID}", str(path))
            path.chmod(mode)


def replace(path: Path, text: str, mode: int) -> None:
    """At once, if it says something else."""
    with suppress(FileNotFoundError):
        if path.read_text() == text:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.half")
    with half.open("w") as file:
        half.chmod(mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def run(*command: str) -> str:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    return done.stdout


def main(head: Head, cluster: str, answer: Mapping[str, Any], *, cancel: bool) -> int:
    orders = answer.get("logins")
    if orders is None:
        return 0
    logins = logins_merge(orders["logins"], head.there(), head.foreign())
    inside = [one for one in logins if one.admitted]
    try:
        head.shut(logins)
        head.open(logins)
        # a new login is reported as ready once Slurm knows it
        known = head.reported()
        head.report([one for one in inside if one.name in known])
    finally:
        if account := orders["account"]:
            gpus = sum(one["gpus"] * one["machines"] for one in answer["pools"])
            try:
                head.account(cluster, account, gpus, logins)
            finally:
                head.jobs_end(logins, running=cancel)
    head.report(inside)
    return 0


if __name__ == "__main__":
    etc, name, policy, *root = sys.argv[1:]
    with Path(etc, "logins.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        machine = Head(Path(*root or "/"), Path(etc))
        sys.exit(main(machine, name, json.load(sys.stdin), cancel=policy != "finish"))
