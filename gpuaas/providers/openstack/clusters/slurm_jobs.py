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
import secrets
import subprocess
import sys
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

WORD = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")  # a login, the name of a job, or an id
# bytes of the end of a log; of one as JSON, beyond which a part of it is taken; and of all in a report, which the portal bounds
LOG_MOST, JSON_MOST, TOGETHER_MOST = 16_384, 24 * 1024, 96 * 1024
LOGS_SECONDS = 10
# in which a report is written, and an answer is taken; queue.sh ends them a little later
REPORT_SECONDS, TAKE_SECONDS, SBATCH_SECONDS = 20, 30, 15
EARLIER = 3600  # seconds by which the clocks of head and portal may be apart
TRIED_AGAIN = re.compile(
    r"timed? ?out|contact|connect|communicat|authenticat|zero bytes|temporar|standby", re.IGNORECASE
)
ENDED = frozenset((
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED",
))  # fmt: skip
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
        return self.lives or (self.state in ENDED and self.exit_code is not None)

    @property
    def is_lost(self) -> bool:
        """The account says that it runs, and the controller does not have it."""
        return not self.lives and self.state not in ENDED


def run(*command: str, seconds: float = 10, given: str | None = None, **around: str) -> str:
    done = subprocess.run(
        command,
        check=True,
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "SLURM_TIME_FORMAT": "%s", **around},
        timeout=seconds,
    )
    return done.stdout


def queue_of() -> Iterator[tuple[str, str, Found]]:
    """Login, comment and job of everybody's. For some minutes also what has ended, which the account may not have yet. A comment may
    contain lines that look like those of other people's jobs: a line counts if it begins with a mark that nobody could know before."""
    mark = secrets.token_hex(16)
    text = run("squeue", "--noheader", "--states=all", SQUEUE_FORMAT=f"{mark}|%A|%u|%T|%S|%r|%k")
    for line in text.split("\n"):
        begins, number, login, state, start, reason, comment = (line.split("|", 6) + [""] * 6)[:7]
        if begins == mark and number.isdigit():
            reason = "" if reason == "None" else reason
            yield login, comment, Found(int(number), state, reason, start=start, lives=state not in ENDED)


def account_of(login: str, since: int) -> Iterator[tuple[str, Found]]:
    """Of one login alone, since what is in its comments may be lines that look like jobs."""
    moment = datetime.fromtimestamp(since).strftime("%Y-%m-%dT%H:%M:%S")  # noqa: DTZ006 — the zone of this machine, as sacct's
    asked = (
        "sacct",
        f"--user={login}",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--starttime={moment}",
    )
    for line in run(*asked, "--format=jobidraw,state,exitcode,start,end,comment").split("\n"):
        number, state, code, start, end, comment = (line.split("|", 5) + [""] * 6)[:6]
        if number.isdigit():
            yield comment, Found(int(number), state.partition(" ")[0], "", exit_code(code), start, end)


def exit_code(text: str) -> int | None:
    """As shells have it: 128 and the signal's number where one ended it."""
    code, _, signal = text.partition(":")
    if not code.isdigit() or not signal.isdigit():
        return None
    return 128 + int(signal) if int(signal) else int(code)


class Known:
    """What Slurm has of these orders, by the portal's id. Of several jobs with one comment it is the one whose number is known, or the
    first. silent: the logins of which it is not known what they had. Raises where the queue is not known."""

    def __init__(self, orders: Sequence[Order], until: float) -> None:
        self.orders = [
            one for one in orders if all(WORD.fullmatch(one[name]) for name in ("login", "name", "id"))
        ]
        self.silent: set[str] = set()
        self._candidates: dict[str, list[Found]] = {}
        self._wanted = {(one["login"], f"gpuaas:{one['id']}"): one for one in self.orders}
        for login, comment, found in queue_of() if self.orders else ():
            self._add(login, comment, found)
        lacking: dict[str, int] = {}
        for one in self.orders:
            if not any(found.lives for found in self._candidates.get(one["id"], ())):
                lacking[one["login"]] = min(one["since"], lacking.get(one["login"], one["since"]))
        for login in in_turn(sorted(lacking)):
            self._ask(login, lacking[login] - EARLIER, until)
        self.found = {key: min(each, key=rank) for key, each in self._candidates.items()}

    @property
    def unknown(self) -> set[str]:
        """Ids of those that may be in Slurm or not."""
        return {
            one["id"] for one in self.orders if one["login"] in self.silent and one["id"] not in self.found
        }

    def _ask(self, login: str, since: int, until: float) -> None:
        try:
            if time.monotonic() > until:
                raise subprocess.SubprocessError("no time is left")
            for comment, found in account_of(login, since):
                self._add(login, comment, found)
        except BROKEN as error:
            self.silent.add(login)
            sys.stderr.write(f"the jobs of {login} are not known now: {error}\n")

    def _add(self, login: str, comment: str, found: Found) -> None:
        order = self._wanted.get((login, comment))
        if order is not None and order["slurm_id"] in {None, found.slurm_id}:
            self._candidates.setdefault(order["id"], []).append(found)


def in_turn(rows: Sequence[Any]) -> list[Any]:
    """Another one is the first of each report, as there may be no time for the last."""
    turn = int(time.time()) // 30 % len(rows) if rows else 0
    return [*rows[turn:], *rows[:turn]]


def rank(found: Found) -> tuple[int, bool, bool]:
    """Of one job the controller has what lives, and the account how it ended."""
    return found.slurm_id, not found.lives, found.exit_code is None


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


def logs_of(known: Sequence[tuple[Order, Found]], until: float) -> dict[str, str | None]:
    """As many as a report holds, None for one that cannot be read: those that have ended first, since they are asked for once, and those
    that run in turn."""
    ended = [one for one in known if not one[1].lives]
    running = [one for one in known if one[1].lives and one[1].state != "PENDING"]
    taken: dict[str, str | None] = {}
    room, until = TOGETHER_MOST, min(until, time.monotonic() + LOGS_SECONDS)
    for order, found in [*ended, *in_turn(running)]:
        if room < JSON_MOST or time.monotonic() > until:
            break
        text = log_of(order, found.slurm_id) if found.start.isdigit() else None
        taken[order["id"]] = text
        room -= size_of(text or "")
    return taken


def report(etc: Path, keys: Path) -> list[dict[str, Any]]:
    """Of the jobs that the last answer named. What Slurm does not say now is left out, and so is an end whose log does not fit any more:
    it comes with the next one."""
    until = time.monotonic() + REPORT_SECONDS
    refused, lacking = read(etc / "jobs.refused", {}), read(etc / "jobs.lacking", {})
    slurm = Known(read(etc / "jobs.json", []), until)
    known, entries = [], []
    for order in slurm.orders:
        key, one = order["id"], slurm.found.get(order["id"])
        if key in refused:  # of some that it refuses Slurm keeps a job that has failed
            entries.append({"id": key, "state": "REFUSED", "reason": refused[key]})
        elif one is not None and one.is_known:
            known.append((order, one))
        elif order["login"] not in slurm.silent and (one is None or one.is_lost):
            failed = {"state": "ERROR", "error": lacking[key]} if key in lacking else {"state": "GONE"}
            entries.append({"id": key, **failed})
    keys_remove(keys, slurm.unknown | {order["id"] for order, one in known if one.lives})
    logs = logs_of(known, until)
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
    """Cancels and submits; returns how much was done. inside: the logins that the machine lets in. What fails for one order fails for it
    alone, and is reported. Without a place to write what is to be reported nothing is submitted, but what is to end ends."""
    kept = [{name: one[name] for name in ("id", "login", "since", "name", "slurm_id")} for one in orders]
    remembers = written(etc / "jobs.json", kept)
    before, until = read(etc / "jobs.refused", {}), time.monotonic() + TAKE_SECONDS
    refused = {one["id"]: before[one["id"]] for one in orders if one["id"] in before}
    asked = [one for one in orders if one["cancel"] or (one["submit"] and one["login"] in inside)]
    slurm, lacking, done = Known(asked, until), {}, 0
    for order in slurm.orders:
        have = slurm.found.get(order["id"])
        if order["cancel"] and have is not None and have.lives:
            done += cancelled(order, have)
    for order in oldest_first(slurm.orders, inside) if remembers else ():
        key, login = order["id"], order["login"]
        if key in slurm.found or key in refused or login in slurm.silent or time.monotonic() > until:
            continue
        try:
            if (words := submit(order, keys)) is not None:
                refused[key] = words
            done += 1
        except BROKEN as error:
            lacking[key] = in_words(error)
            slurm.silent.add(login)  # what is slow for one of their jobs is so for the next
    written(etc / "jobs.refused", refused)
    written(etc / "jobs.lacking", lacking)
    return done


def oldest_first(orders: Sequence[Order], inside: Sequence[str]) -> list[Order]:
    """Those to submit, of each user as they were ordered, since Slurm takes the first for the older one; another user begins each time."""
    logins = in_turn(sorted({one["login"] for one in orders if one["submit"]} & set(inside)))
    return [one for login in logins for one in orders if one["login"] == login and one["submit"]]


def cancelled(order: Order, found: Found) -> bool:
    """Slurm compares the owner once more: a number is no proof of whose job it is."""
    try:
        run("scancel", f"--user={order['login']}", str(found.slurm_id))
    except BROKEN as error:
        sys.stderr.write(f"job {found.slurm_id} is not cancelled: {in_words(error)}\n")
        return False
    return True


def in_words(error: Exception) -> str:
    """Of a program that failed or never ended, its name alone: its arguments are what people wrote."""
    if isinstance(error, subprocess.TimeoutExpired):
        return "the program that submits it as its user did not end in time"
    if isinstance(error, subprocess.CalledProcessError):
        made = "the file of its credentials" if "install" in error.cmd else f"the folder {FOLDER} in the home"
        return f"{made} cannot be made"
    return re.sub(r"[^ -~]", "", str(error))[:300]


def keys_remove(keys: Path, used: Container[str]) -> None:
    for path in keys.glob("*"):
        if path.name not in used:
            path.unlink(missing_ok=True)


def keys_write(keys: Path, order: Order) -> str:
    """Where they are."""
    keys.mkdir(mode=0o711, parents=True, exist_ok=True)
    path, login = str(keys / order["id"]), order["login"]
    whose = f"--owner={login}", f"--group={login}", "--mode=0600"
    run("install", *whose, "/dev/stdin", path, given=order["keys"])
    return path


def submit(order: Order, keys: Path) -> str | None:
    """Why Slurm never takes it; None where it has taken it. Raises what may be otherwise the next time."""
    home = f"/home/{order['login']}"
    run(*as_user(order["login"]), "mkdir", "--parents", "--", f"{home}/{FOLDER}", seconds=5)
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
        command, check=False, input=order["script"], capture_output=True, text=True, timeout=SBATCH_SECONDS
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
    """otherwise: where there is none, or half of one after a power cut."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return otherwise


def written(path: Path, value: Any) -> bool:
    """Whether the disk has taken it."""
    half = path.with_name(f".{path.name}.half")
    try:
        with half.open("w") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        sys.stderr.write(f"{path.name} is not written: {error.strerror}\n")
        return False
    return True


def main(deed: str, etc: Path, keys: Path) -> None:
    if deed == "report":
        text = json.dumps(report(etc, keys), ensure_ascii=False)
        sys.stdout.buffer.write(f'"jobs": {text}, "moves": true, '.encode())
        return
    orders = json.load(sys.stdin).get("jobs")
    if orders is not None and (done := take(etc, orders, read(etc / "logins.json", []), keys)):
        sys.stdout.write(f"{done}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), Path(*sys.argv[3:] or [KEYS]))
    except BROKEN as wrong:
        sys.exit(f"what Slurm has is not known now: {wrong}")
