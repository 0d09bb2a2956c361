#!/usr/bin/python3
"""Run twice a minute on the head of a Slurm cluster. As gpuaas-jobs report ETC it writes what Slurm says about the portal's jobs, as a
part of the report; as gpuaas-jobs take ETC it submits and cancels what the portal's answer (standard input) says.

The head runs this very file, so it imports nothing but the standard library. It may be killed at any point and run again: a job is known
by its comment, which is made of the portal's id, and is looked for in Slurm before it is submitted. Scripts are data here: sbatch gets
them on its standard input, as the user whose job it is, and logs are read as that user as well. Only jobs of that very user are looked
at, for comments are anybody's to write.

A mover of files has keys, which are in none of what Slurm keeps: they are in a file of its user's, in a folder where only root makes
and removes files. The mover empties it when it ends, and each report removes what is not of a mover that Slurm has.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

WORD = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")  # a login, the name of a job, or an id
# bytes of the end of a log; of one as JSON, beyond which a part of it is taken; and of all in a report, which the portal bounds
LOG_MOST, JSON_MOST, TOGETHER_MOST = 16_384, 24 * 1024, 96 * 1024
LOGS_SECONDS = 10
EARLIER = 3600  # seconds by which the clocks of head and portal may be apart
TRIED_AGAIN = re.compile(
    r"timed? ?out|contact|connect|communicat|authenticat|zero bytes|temporar|standby", re.IGNORECASE
)
ENDED = frozenset(
    [
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REVOKED",
    ]
)
FOLDER = "gpuaas-jobs"  # of the user's home
KEYS = "/home/.gpuaas/keys"  # on all machines
Order = Mapping[str, Any]
BROKEN = (subprocess.SubprocessError, OSError)


@dataclass(frozen=True)
class Found:
    """What Slurm says about a job. lives: its controller has it still."""

    slurm_id: int
    state: str
    reason: str = ""
    exit_code: int | None = None
    start: str = ""
    end: str = ""
    lives: bool = False

    @property
    def is_known(self) -> bool:
        """Not of one that has ended so recently that the account does not have its end."""
        return self.lives or self.exit_code is not None


def run(*command: str, given: str | None = None) -> str:
    around = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    done = subprocess.run(
        command,
        check=True,
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        env=around,
        timeout=10,
    )
    return done.stdout


def queue_of(login: str) -> Iterator[tuple[str, Found]]:
    """By comment, which comes last, as anything may be in it. For some minutes also what has ended, which the account may not have yet."""
    asked = ("squeue", f"--user={login}", "--noheader", "--states=all", "--format=%A|%T|%S|%r|%k")
    for line in run(*asked).splitlines():
        number, state, start, reason, comment = (line.split("|", 4) + [""] * 5)[:5]
        if number.isdigit():
            reason = "" if reason == "None" else reason
            yield comment, Found(int(number), state, reason, start=start, lives=state not in ENDED)


def account_of(login: str, since: int) -> Iterator[tuple[str, Found]]:
    """Of those that have ended: the comment is written then."""
    moment = datetime.fromtimestamp(since).strftime("%Y-%m-%dT%H:%M:%S")  # noqa: DTZ006 — the zone of this machine, as sacct's
    asked = (
        "sacct",
        f"--user={login}",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--starttime={moment}",
    )
    for line in run(*asked, "--format=jobidraw,state,exitcode,start,end,comment").splitlines():
        number, state, code, start, end, comment = (line.split("|", 5) + [""] * 6)[:6]
        if number.isdigit():
            yield comment, Found(int(number), state.partition(" ")[0], "", exit_code(code), start, end)


def exit_code(text: str) -> int | None:
    """As shells have it: 128 and the signal's number where one ended it."""
    code, _, signal = text.partition(":")
    if not code.isdigit() or not signal.isdigit():
        return None
    return 128 + int(signal) if int(signal) else int(code)


def found_of(login: str, orders: Sequence[Order]) -> dict[str, Found]:
    """By the portal's id. Of several with one comment it is the one whose number is known, or the first. Raises where Slurm is silent."""
    wanted = {f"gpuaas:{order['id']}": order for order in orders}
    candidates: dict[str, list[Found]] = {}

    def add(rows: Iterator[tuple[str, Found]]) -> None:
        for comment, found in rows:
            order = wanted.get(comment)
            if order is not None and order["slurm_id"] in {None, found.slurm_id}:
                candidates.setdefault(order["id"], []).append(found)

    add(queue_of(login))
    if sum(any(one.lives for one in each) for each in candidates.values()) < len(orders):
        add(account_of(login, min(order["since"] for order in orders) - EARLIER))
    return {key: min(each, key=rank) for key, each in candidates.items()}


def rank(found: Found) -> tuple[int, bool, bool]:
    """Of one job the controller has what lives, and the account how it ended."""
    return found.slurm_id, not found.lives, found.exit_code is None


def by_login(orders: Sequence[Order]) -> Iterator[tuple[str, list[Order]]]:
    fit = [one for one in orders if all(WORD.fullmatch(one[name]) for name in ("login", "name", "id"))]
    for login, mine in groupby(
        sorted(fit, key=lambda one: str(one["login"])), key=lambda one: str(one["login"])
    ):
        yield login, list(mine)


def as_user(login: str) -> list[str]:
    """With a clean environment, and with no rights of root's."""
    return ["setpriv", f"--reuid={login}", f"--regid={login}", "--init-groups", "env", "--ignore-environment",
            f"HOME=/home/{login}", f"USER={login}", f"LOGNAME={login}", "SHELL=/bin/bash", "LANG=C.UTF-8",
            f"PATH={os.environ['PATH']}"]  # fmt: skip


def log_of(order: Order, slurm_id: int) -> str | None:
    path = f"/home/{order['login']}/{FOLDER}/{order['name']}-{slurm_id}.log"
    command = [*as_user(order["login"]), "tail", f"--bytes={LOG_MOST}", "--", path]
    try:
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=2
        )
    except BROKEN:
        return None
    text = done.stdout[-LOG_MOST:].decode(errors="replace").replace("\x00", "")
    return text if size_of(text) <= JSON_MOST else text[1 - JSON_MOST // 6 :]


def size_of(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def logs_of(known: Sequence[tuple[Order, Found]]) -> dict[str, str | None]:
    """As many as a report holds, None for one that cannot be read: those that have ended first, since they are asked for once, and those
    that run in turn."""
    ended = [one for one in known if not one[1].lives]
    running = [one for one in known if one[1].lives and one[1].state != "PENDING"]
    turn = int(time.time()) // 30 % len(running) if running else 0
    taken: dict[str, str | None] = {}
    room, until = TOGETHER_MOST, time.monotonic() + LOGS_SECONDS
    for order, found in [*ended, *running[turn:], *running[:turn]]:
        if room < JSON_MOST or time.monotonic() > until:
            break
        text = log_of(order, found.slurm_id) if found.start.isdigit() else None
        taken[order["id"]] = text
        room -= size_of(text or "")
    return taken


def report(etc: Path, keys: Path) -> list[dict[str, Any]]:
    """Of the jobs that the last answer named. What Slurm does not say now is left out, and so is an end whose log does not fit any more:
    it comes with the next one."""
    known, entries, refused = [], [], read(etc / "jobs.refused", {})
    silent = set[str]()
    for login, orders in by_login(read(etc / "jobs.json", [])):
        try:
            found = found_of(login, orders)
        except BROKEN as error:
            sys.stderr.write(f"the jobs of {login} are not known now: {error}\n")
            silent |= {order["id"] for order in orders}
            continue
        for order in orders:
            key, one = order["id"], found.get(order["id"])
            if key in refused:  # of some that it refuses Slurm keeps a job that has failed
                entries.append({"id": key, "state": "REFUSED", "reason": refused[key]})
            elif one is None:
                entries.append({"id": key, "state": "GONE"})
            elif one.is_known:
                known.append((order, one))
    keys_remove(keys, silent | {order["id"] for order, one in known if one.lives})
    logs = logs_of(known)
    entries += [
        entry_of(*one, logs.get(one[0]["id"])) for one in known if one[1].lives or one[0]["id"] in logs
    ]
    return entries


def entry_of(order: Order, found: Found, log: str | None) -> dict[str, Any]:
    entries: dict[str, Any] = {"id": order["id"], "state": found.state, "slurm_id": found.slurm_id}
    entries["reason"] = re.sub(r"[^ -~]", "", found.reason)[:300]
    if found.exit_code is not None and not found.lives:
        entries["exit_code"] = found.exit_code
    for name, text in (("started_at", found.start), ("ended_at", found.end)):
        if text.isdigit() and found.state != "PENDING":
            entries[name] = int(text)
    return entries if log is None else {**entries, "log": log}


def take(etc: Path, orders: Sequence[Order], inside: Sequence[str], keys: Path) -> int:
    """Submits and cancels; returns how much was done. inside: the logins that the machine lets in."""
    kept = [{name: one[name] for name in ("id", "login", "since", "name", "slurm_id")} for one in orders]
    replace(etc / "jobs.json", kept)
    before = read(etc / "jobs.refused", {})
    refused = {one["id"]: before[one["id"]] for one in orders if one["id"] in before}
    done = 0
    for login, mine in by_login(orders):
        if login not in inside and not any(one["cancel"] for one in mine):
            continue
        try:
            found = found_of(login, mine)
            for order in mine:
                have = found.get(order["id"])
                if order["cancel"] and have is not None and have.lives:
                    run("scancel", str(have.slurm_id))
                    done += 1
                elif order["submit"] and have is None and order["id"] not in refused and login in inside:
                    if (words := submit(order, keys)) is not None:
                        refused[order["id"]] = words
                    done += 1
        except BROKEN as error:
            sys.stderr.write(f"the jobs of {login} wait: {error}\n")
    replace(etc / "jobs.refused", refused)
    return done


def keys_remove(keys: Path, used: Container[str]) -> None:
    for path in keys.glob("*"):
        if path.name not in used:
            path.unlink(missing_ok=True)


def keys_write(keys: Path, order: Order) -> str:
    """Where they are."""
    keys.mkdir(mode=0o711, parents=True, exist_ok=True)
    path, login = str(keys / order["id"]), order["login"]
    run(
        "install",
        f"--owner={login}",
        f"--group={login}",
        "--mode=0600",
        "/dev/stdin",
        path,
        given=order["keys"],
    )
    return path


def submit(order: Order, keys: Path) -> str | None:
    """Why Slurm never takes it; None where it has taken it. Raises what may be otherwise the next time."""
    home = f"/home/{order['login']}"
    run(*as_user(order["login"]), "mkdir", "--parents", "--", f"{home}/{FOLDER}")
    around = [f"RCLONE_CONFIG={keys_write(keys, order)}"] if order.get("keys") else []
    command = [
        *as_user(order["login"]),
        *around,
        "sbatch",
        "--parsable",
        "--ignore-pbs",
        *options(order, home),
    ]
    done = subprocess.run(
        command, check=False, input=order["script"], capture_output=True, text=True, timeout=30
    )
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"sbatch ended with {done.returncode}"]
    words = lines[-1].removeprefix("sbatch: ").removeprefix("error: ")
    if TRIED_AGAIN.search(words):
        raise subprocess.SubprocessError(words)
    return words[:300]


def options(order: Order, home: str) -> Iterator[str]:
    yield f"--comment=gpuaas:{order['id']}"
    yield f"--job-name={order['name']}"
    yield f"--chdir={home}"
    yield f"--output={home}/{FOLDER}/{order['name']}-%j.log"
    for name, option, unit in (
        ("partition", "partition", ""),
        ("nodes", "nodes", ""),
        ("tasks", "ntasks", ""),
        ("cpus_per_task", "cpus-per-task", ""),
        ("gpus_per_node", "gpus-per-node", ""),
        ("memory_gib", "mem", "G"),
        ("minutes", "time", ""),
    ):
        if order[name]:
            yield f"--{option}={order[name]}{unit}"


def read(path: Path, otherwise: Any) -> Any:
    return json.loads(path.read_text()) if path.exists() else otherwise


def replace(path: Path, value: Any) -> None:
    half = path.with_name(f".{path.name}.half")
    half.write_text(json.dumps(value))
    half.replace(path)


def main(deed: str, etc: Path, keys: Path) -> None:
    if deed == "report":
        text = json.dumps(report(etc, keys), ensure_ascii=False)
        sys.stdout.buffer.write(f'"jobs": {text}, "moves": true, '.encode())
        return
    orders = json.load(sys.stdin).get("jobs")
    if orders is not None and (done := take(etc, orders, read(etc / "logins.json", []), keys)):
        sys.stdout.write(f"{done}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(*sys.argv[3:] or [KEYS]))
