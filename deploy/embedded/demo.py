"""`make demo`, `make dev`, `make demo-reset` and `make lab`: one portal on this machine, everything under .demo/.

dev: the same as up, but every process starts again when a file it was made from changes (Procfile.dev).
up: services, migrations, seed, then web + worker + scheduler + meter until Ctrl-C, which stops all of it. Data stays.
Ctrl-C ends it with 0 at every moment; data that were not made whole are made anew by the next start. One of the processes
that is killed or fails, PostgreSQL and Redis too, comes back as a service manager would have it in production.
"""

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from importlib.util import find_spec
from typing import Any

from deploy.embedded import postgres, redis
from deploy.embedded.certificate import certificate_make
from deploy.embedded.environment import DEMO_FOLDER as FOLDER
from deploy.embedded.environment import ROOT, demo_environment, demo_stop
from deploy.embedded.redis import free_port, is_free

STATE = FOLDER / "running.json"
LATE_SECONDS = 60.0
ANSWER_SECONDS = 0.2
LOOK_SECONDS = 1.0
NAMED_SECONDS = 5.0
STARTING_SECONDS = 0.2
# as a service manager would wait (deploy/systemd): what a task has under way at a site is finished
ENDING_SECONDS = 60.0
LEAVING_SECONDS = 0.5  # Ctrl-C may reach the servers before it reaches us
DOOR_DOMAIN = "apps.localhost"  # browsers find all names of localhost on this machine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo")
    parser.add_argument("command", choices=["up", "dev", "reset", "lab"])
    command = parser.parse_args().command
    os.chdir(ROOT)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.demo")
    return {"up": up, "dev": dev, "reset": reset, "lab": lab}[command]()


def dev() -> int:
    """`up` for who changes the code: web, worker, scheduler, meter and front end follow the files."""
    return up(procfile="Procfile.dev")


def up(procfile: str = "Procfile") -> int:
    if running():
        print(f"The demo already runs at {running()}")
        return 1
    started = time.monotonic()
    own = {name for name in ("GPUAAS_DATABASE_URL", "GPUAAS_BROKER_URL") if not os.environ.get(name)}
    end = "Stopped before the portal was ready; `make demo` starts it again."
    try:
        signal.signal(signal.SIGINT, interrupt)
        prepare(own)
        with kept(own) as over:
            code = serve(started, procfile, over)
        end = "Stopped. The data is kept; `make demo` brings it back, `make demo-reset` forgets it."
    except KeyboardInterrupt:
        code = 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        STATE.unlink(missing_ok=True)
        demo_stop()
        print(end)
    return code


def interrupt(*_: object) -> None:
    """The first Ctrl-C interrupts what is under way; later ones would interrupt only how that is put in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def prepare(own: Collection[str]) -> None:
    """Services, tables and sample data, and the environment of all that is started from now on. `own`: the variables of the services
    that are the demo's own."""
    unfinished = FOLDER / "unfinished"
    if unfinished.exists():
        print("The last start ended before the sample data was made: it is made anew.", flush=True)
        forget()
    if "GPUAAS_DATABASE_URL" in own and not (FOLDER / "postgres").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        unfinished.touch()
    print("Starting PostgreSQL and Redis", flush=True)
    with uninterrupted():
        environment = demo_environment()
    os.environ.update(
        GPUAAS_DATABASE_URL=environment.database_url,
        GPUAAS_BROKER_URL=environment.redis_url,
        GPUAAS_BEAT_SCHEDULE=str(FOLDER / "beat"),
        PATH=f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
    )
    print("Bringing the tables up to date", flush=True)
    python("manage.py", "migrate", "--verbosity", "0")
    print("Making the sample data, which takes some minutes at the first start", flush=True)
    python("-m", "deploy.embedded.seed", "--work")
    unfinished.unlink(missing_ok=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is done, and the programs that are started meanwhile ignore it: a server whose start is cut off may
    come up after everything that would have stopped it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # what is blocked is kept, though it is ignored
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def kept(own: Collection[str]) -> Iterator[threading.Event]:
    """Meanwhile PostgreSQL and Redis, as far as they are our own, are started again at their addresses when they are gone. The
    event ends that: from then on all of it is being stopped."""
    servers: dict[str, tuple[str, Callable[[str], bool], Callable[[], object]]] = {
        "GPUAAS_DATABASE_URL": (
            "PostgreSQL",
            postgres.answers,
            lambda: postgres.start(FOLDER / "postgres", postgres.DEMO_OPTIONS),
        ),
        "GPUAAS_BROKER_URL": ("Redis", redis.answers, lambda: redis.start(FOLDER / "redis")),
    }
    over = threading.Event()

    def keep() -> None:
        while not over.wait(LOOK_SECONDS):
            for variable in own:
                name, answers, start = servers[variable]
                if not answers(os.environ[variable]) and not over.wait(LEAVING_SECONDS):
                    print(f"{name} is gone, and is started again", flush=True)
                    # what its processes have left may be in the way for a moment: the next round tries again
                    with suppress(AssertionError, OSError, RuntimeError, subprocess.SubprocessError):
                        start()

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield over
    finally:
        over.set()
        keeper.join()


def serve(started: float, procfile: str, over: threading.Event) -> int:
    """Run the processes of `procfile` until a signal or until one of its processes ends by itself; sets `over` when it begins to
    stop them."""
    from honcho.environ import parse_procfile
    from honcho.manager import Manager

    from deploy.embedded.kept import kept_by

    port = int(os.environ.get("PORT", "8000"))
    port = port if port and is_free(port) else free_port()
    url = f"http://127.0.0.1:{port}"
    os.environ.update(PORT=str(port), GPUAAS_PUBLIC_URL=url, **door())
    STATE.write_text(json.dumps({"url": url, "pid": os.getpid()}), encoding="utf-8")
    manager: Any = Manager()
    kept_by(manager)
    stop_in_order(manager, over)
    for name, command in parse_procfile((ROOT / procfile).read_text(encoding="utf-8")).processes.items():
        if name == "door" and "GPUAAS_DOOR_DOMAIN" not in os.environ:
            continue
        manager.add_process(name, command, env=dict(os.environ), cwd=str(ROOT))
    threading.Thread(target=announce, args=(url, started, over), daemon=True).start()
    signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    manager.loop()
    return int(manager.returncode or 0) if manager.returncode not in {130, -2} else 0


def stop_in_order(manager: Any, over: threading.Event) -> None:
    """Processes that are asked to end are waited for, and named while they are; only after ENDING_SECONDS are they killed. The
    manager itself asks for that in each of its rounds from 5 seconds on. What has not started yet is stopped as soon as it has."""
    terminate, kill = manager.terminate, manager.kill
    asked = named = 0.0

    def stop() -> None:
        nonlocal asked
        asked = asked or time.monotonic()
        over.set()
        if manager._all_started():
            terminate()
            return
        later = threading.Timer(STARTING_SECONDS, stop)
        later.daemon = True
        later.start()

    def wait() -> None:
        nonlocal named
        now = time.monotonic()
        left = asked + ENDING_SECONDS - now
        if left <= 0:
            kill()
        elif now - named >= NAMED_SECONDS:
            named = now
            names = ", ".join(name for name, its in manager._processes.items() if "returncode" not in its)
            print(f"Waiting for {names} to finish what is under way, at most {left:.0f} s more", flush=True)

    manager.terminate, manager.kill = stop, wait


def door() -> dict[str, str]:
    """What gives environments addresses of their own, at a free port of this machine; nothing without Envoy. The browser warns
    of the certificate."""
    if find_spec("envoy") is None:
        return {}
    certificate, key = certificate_make(FOLDER / "door", DOOR_DOMAIN)
    port, ssh = free_port(), free_port()
    files = {"GPUAAS_DOOR_CERTIFICATE": str(certificate), "GPUAAS_DOOR_KEY": str(key)}
    by_ssh = {"GPUAAS_DOOR_SSH": f"127.0.0.1:{ssh}", "GPUAAS_DOOR_SSH_BIND": f"127.0.0.1:{ssh}"}
    by_browser = {"GPUAAS_DOOR_DOMAIN": f"{DOOR_DOMAIN}:{port}", "GPUAAS_DOOR_BIND": f"127.0.0.1:{port}"}
    return {**by_browser, **by_ssh, **files}


def announce(url: str, started: float, over: threading.Event) -> None:
    """Say where it is and how to get in, once it answers, however late that is; once that it is late."""
    late_at = time.monotonic() + LATE_SECONDS
    while not web_answers(url + "/accounts/login/"):
        if over.wait(ANSWER_SECONDS):
            return
        if time.monotonic() > late_at:
            late_at = math.inf
            print(
                f"{url} does not answer yet. As soon as it does, this is shown here, with the logins.",
                flush=True,
            )
    lines = [
        "",
        f"  gpuaas is ready at {url} ({time.monotonic() - started:.0f} s)",
        "",
        "  alice   owner: projects weather-lm and downscale         password: demo",
        "  bob     her teammate                                     password: demo",
        "  charlie another organization                             password: demo",
        "  olga    operator of the platform                         password: demo",
        "",
        f"  API {url}/api/docs/   ·   Ctrl-C stops all of it   ·   `make lab` in another terminal adds a real Kubernetes",
        "",
    ]
    print("\n".join(lines), flush=True)


def web_answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (OSError, HTTPException):
        return False


def running() -> str | None:
    """The address of the demo that runs, if one does."""
    if not STATE.exists():
        return None
    state = json.loads(STATE.read_text(encoding="utf-8"))
    try:
        os.kill(int(state["pid"]), 0)
    except ProcessLookupError:
        STATE.unlink(missing_ok=True)
        return None
    return str(state["url"])


def reset() -> int:
    if running():
        print("Stop the demo first (Ctrl-C in its terminal).")
        return 1
    forget()
    print("The demo's data is gone.")
    return 0


def forget() -> None:
    demo_stop()
    shutil.rmtree(FOLDER, ignore_errors=True)


def lab() -> int:
    """Start the lab and attach it to the demo as site `lab`; its GPU types appear in the catalog by themselves."""
    url = running()
    if not url:
        print("Start `make demo` in another terminal first.")
        return 1
    from deploy.lab.kubernetes import Lab, existing_kubeconfig

    given = existing_kubeconfig()
    control_plane = Lab()
    if given is None:
        control_plane.up()
    environment = demo_environment()
    os.environ.update(GPUAAS_DATABASE_URL=environment.database_url, GPUAAS_BROKER_URL=environment.redis_url)
    kubeconfig = str(given or control_plane.kubeconfig)
    subprocess.run([sys.executable, "-m", "deploy.embedded.seed", "--lab", kubeconfig], check=True)
    print(f"\n  The site `lab` is in the catalog: {url}\n  kubectl: {control_plane.kubectl}\n")
    return 0


def python(*arguments: str) -> None:
    """In a session of its own, where the terminal's Ctrl-C does not reach it: it ends with us, without a traceback."""
    if subprocess.run([sys.executable, *arguments], check=False, start_new_session=True).returncode:
        sys.exit(f"{' '.join(arguments)} failed: the lines above say why.")


if __name__ == "__main__":
    sys.exit(main())
