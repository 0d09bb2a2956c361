"""Run by Python in a pod: asks the portal through its Service until /tmp/stop is there, and says what became of each request.

Each has a connection of its own, so that any pod may get it. A change is accepted when it is answered with 200; each one
raises the project's version by 1.
"""

import http.client
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

SERVICE, HOST, TOKEN, PROJECT = sys.argv[1:]
PATH = f"/api/v1/projects/{PROJECT}"
PAUSE_S = 0.05  # the portal is to be busy, not the machine
bad: list[str] = []
counts = {"read": 0, "changed": 0}
never = threading.Event()


def read() -> None:
    ask("GET")


def changed() -> None:
    ask("PATCH", {"name": f"Name {counts['changed']}"})


def ask(method: str, body: dict[str, str] | None = None) -> None:
    headers = {
        "Host": HOST,
        "X-Forwarded-Proto": "https",
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
    }
    web = http.client.HTTPConnection(SERVICE, 80, timeout=60)
    try:
        web.request(method, PATH, json.dumps(body) if body else None, headers)
        answer = web.getresponse()
        content = answer.read()
    finally:
        web.close()
    if answer.status != 200:
        raise OSError(f"{answer.status} {content[:200]!r}")


def go_on(once: Callable[[], None]) -> None:
    while not Path("/tmp/stop").exists():
        try:
            once()
            counts[once.__name__] += 1
        except (OSError, http.client.HTTPException) as error:
            bad.append(f"{once.__name__}: {type(error).__name__} {error}")
        never.wait(PAUSE_S)


threads = [threading.Thread(target=go_on, args=[once]) for once in (read, changed)]
for thread in threads:
    thread.start()
sys.stdout.write("begun\n")
sys.stdout.flush()
for thread in threads:
    thread.join()
sys.stdout.write(json.dumps({**counts, "bad": bad}) + "\n")
