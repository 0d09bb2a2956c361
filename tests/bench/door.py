"""What the door adds to a request: 200 environments behind it, each asked in turn by somebody who has signed in to it, against the
same bytes sent straight to the server that stands for their pods.

The door is the process that `manage.py door` starts, with its Envoy, at a site whose pods it reaches by their addresses. Every second
request is the direct one, over a connection of the same age, so that what else the machine does is in both. By the door a connection
is TLS, and a new one is a whole handshake; a direct one is plain, as pods speak. The server answers at once: what a real one takes for
its answer is in both, and makes the ratio better than it is here.

A door that has just started has no way to any pod yet, and finds it in the database and at the site for the first request to each. So
does one for which nobody has asked for a minute.
"""

import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from django.test import override_settings

from deploy.embedded.certificate import certificate_make
from deploy.embedded.environment import ROOT
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.environments.door.desk import PASS
from gpuaas.environments.models import Environment
from gpuaas.providers.kubeapi.client import Api
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.bench.pod import SIZE
from tests.bench.ready import lab_kubeconfig
from tests.bench.table import Measured
from tests.environments.door.stage import DOMAIN, Visitor, host_of
from tests.environments.stage import kind, row_in
from tests.factories.catalog import SiteFactory
from tests.factories.tenants import ProjectFactory, ProjectMembershipFactory, UserFactory
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until
from tests.metering.meters import environment_here

ENVIRONMENTS, KEPT_ROUNDS, NEW_ROUNDS = 200, 10, 5
UNCOUNTED = 6  # rounds before: each of Envoy's threads finds a way of its own to each pod, and keeps it
WANTED = 1.3  # times a direct connection at most
HERE, CHUNK, SECONDS = "127.0.0.1", 1 << 16, 20.0


def measure() -> list[Measured]:
    kubeconfig = lab_kubeconfig()
    with TemporaryDirectory() as name, _pod() as pod:
        user, rows = _stage(kubeconfig, pod)
        space = f"/api/v1/namespaces/{rows[0].workspace.external_name}"
        api = Api(kubeconfig)
        try:
            _pods(api, space, rows)
            with _door(Path(name)) as (port, tls):
                targets = _signed_in(Visitor(port, user), [host_of(row) for row in rows])
                ways = Way(port, tls), Way(pod)
                kept, new = _by_kept(*ways, targets), _by_new(*ways, targets, NEW_ROUNDS)
            with _door(Path(name)) as (port, tls):
                _known(Visitor(port), [each.host for each in targets])
                first = _by_new(Way(port, tls), Way(pod), targets, 1, uncounted=0)
        finally:
            api.delete(space)
    kinds = {"kept connection": kept, "new connection": new, "a door's first to each": first}
    return [row for what, times in kinds.items() for row in _rows(what, *times)]


@dataclass(frozen=True)
class Target:
    """An environment, and the bytes by which somebody who is signed in asks for its page."""

    host: str
    request: bytes


@dataclass
class Times:
    """In ms, until the first byte of an answer and until its last."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


Asked = Callable[[Target], tuple[float, float]]


@dataclass(frozen=True)
class Way:
    """To the pod's server: straight, or by the door."""

    port: int
    tls: ssl.SSLContext | None = None

    def opened(self, target: Target) -> socket.socket:
        plain = socket.create_connection((HERE, self.port), SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname=target.host)

    def anew(self, target: Target) -> tuple[float, float]:
        began = time.perf_counter()
        with closing(self.opened(target)) as connection:
            return _asked(connection, target, began)


def _asked(connection: socket.socket, target: Target, began: float) -> tuple[float, float]:
    """Seconds until the first byte and until the last."""
    connection.sendall(target.request)
    head, end, body = connection.recv(CHUNK).partition(b"\r\n\r\n")
    first = time.perf_counter()
    if not (end and head.startswith(b"HTTP/1.1 200 ")):
        raise SystemExit(f"{target.host} answers {head[:200]!r}")
    left = SIZE - len(body)
    while left > 0:
        part = connection.recv(CHUNK)
        if not part:
            raise SystemExit(f"{target.host} has ended the connection")
        left -= len(part)
    return first - began, time.perf_counter() - began


def _by_kept(door: Way, straight: Way, targets: list[Target]) -> tuple[Times, Times]:
    """All connections are open at the same time, 200 of each kind."""
    connections = {(way, each): way.opened(each) for each in targets for way in (door, straight)}

    def asked(way: Way, target: Target) -> tuple[float, float]:
        return _asked(connections[way, target], target, time.perf_counter())

    try:
        return _in_turn(partial(asked, door), partial(asked, straight), targets, KEPT_ROUNDS)
    finally:
        for each in connections.values():
            each.close()


def _by_new(
    door: Way, straight: Way, targets: list[Target], rounds: int, *, uncounted: int = UNCOUNTED
) -> tuple[Times, Times]:
    return _in_turn(door.anew, straight.anew, targets, rounds, uncounted=uncounted)


def _in_turn(
    door: Asked, straight: Asked, targets: list[Target], rounds: int, *, uncounted: int = 1
) -> tuple[Times, Times]:
    found = {door: Times(), straight: Times()}
    for number in range(uncounted + rounds):
        for target in targets:
            for way, times in found.items():
                first, whole = way(target)
                if number >= uncounted:
                    times.first.append(first * 1000)
                    times.whole.append(whole * 1000)
    return found[door], found[straight]


def _rows(what: str, ours: Times, floor: Times) -> list[Measured]:
    return [
        _row(f"{what}, first byte, p95", ours.first, floor.first),
        _row(f"{what}, whole answer, p95", ours.whole, floor.whole),
    ]


def _row(what: str, ours: list[float], floor: list[float]) -> Measured:
    slow, least = (statistics.quantiles(each, n=20)[18] for each in (ours, floor))
    middle, half = statistics.median(ours), statistics.median(floor)
    note = (
        f"{slow / least:.1f} times a direct connection, {WANTED} are wanted; median {middle:.2f} ms against {half:.2f} ms, "
        f"{middle / half:.1f} times; {len(ours):,} requests to {ENVIRONMENTS} environments"
    )
    return Measured(what, "ms", slow, least, "a direct connection", higher_is_better=False, note=note)


# -- what is asked -------------------------------------------------------------------------------------------------


@contextmanager
def _pod() -> Iterator[int]:
    """Its port. A process of its own, as a pod is."""
    command = [sys.executable, "-m", "tests.bench.pod"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline() if process.stdout else "")
        finally:
            process.terminate()


@contextmanager
def _door(folder: Path) -> Iterator[tuple[int, ssl.SSLContext]]:
    port = free_port()
    certificate, key = map(str, certificate_make(folder, DOMAIN))
    domain = f"{DOMAIN}:{port}"
    given = {"DOMAIN": domain, "CERTIFICATE": certificate, "KEY": key, "BIND": f"{HERE}:{port}"}
    named = {f"GPUAAS_DOOR_{name}": value for name, value in given.items()}
    with (
        (folder / "door.log").open("wb") as log,
        override_settings(DOOR_DOMAIN=domain, DOOR_CERTIFICATE=certificate),
        subprocess.Popen(
            [sys.executable, "manage.py", "door"],
            cwd=ROOT,
            env={**environment_here(), **named},
            stdout=log,
        ) as process,
    ):
        try:
            yield port, ssl.create_default_context(cafile=certificate)
        finally:
            process.terminate()


def _signed_in(visitor: Visitor, hosts: list[str]) -> list[Target]:
    """By the portal, as a browser does it, for each environment."""
    _known(visitor, hosts)
    targets = []
    for host in hosts:
        if (answer := visitor.opens(host)).status != 200:
            raise SystemExit(f"{host} answers {answer.status}")
        cookie = f"{PASS}={visitor.cookies[host][PASS]}"
        request = f"GET / HTTP/1.1\r\nHost: {host}:{visitor.port}\r\nAccept: */*\r\nCookie: {cookie}\r\n\r\n"
        targets.append(Target(host, request.encode()))
    return targets


def _known(visitor: Visitor, hosts: list[str]) -> None:
    until(lambda: all(_is_known(visitor, host) for host in hosts), "the door knows all environments")


def _is_known(visitor: Visitor, host: str) -> bool:
    try:
        return visitor.ask(host).status == 401
    except OSError:
        return False


def _pods(api: Api, space: str, rows: list[Environment]) -> None:
    """Behind a gate, so that the scheduler leaves them alone, and said to run on this machine."""
    api.create("/api/v1/namespaces", {"metadata": {"name": space.rpartition("/")[2]}})
    until(lambda: api.find(f"{space}/serviceaccounts/default"), "the namespace takes pods")
    container = {"name": "environment", "image": "notebook:1"}
    gated = {"schedulingGates": [{"name": "gpuaas.io/bench"}], "containers": [container]}
    status = {
        "phase": "Running",
        "podIP": HERE,
        "podIPs": [{"ip": HERE}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    for row in rows:
        api.create(f"{space}/pods", {"metadata": {"name": row.external_name}, "spec": gated})
        api.merge(f"{space}/pods/{row.external_name}/status", {"status": status})


def _stage(kubeconfig: str, port: int) -> tuple[User, list[Environment]]:
    site = SiteFactory.create(
        slug="bench-door",
        driver="kubernetes",
        credentials=encrypt_json({"kubeconfig": kubeconfig}),
        options={"environments_direct": True},
    )
    project, user = ProjectFactory.create(slug="bench-door"), UserFactory.create(username="bench-door")
    ProjectMembershipFactory.create(project=project, user=user, role="admin")
    now = clock.now()
    workspace = Workspace.objects.create(
        project=project,
        site=site,
        name="door",
        state="ready",
        lease_ends_at=now + timedelta(days=1),
        created_by=user,
        created_at=now,
    )
    kind(port=port, readiness="/")
    return user, [row_in(workspace, f"bench-{number:03}") for number in range(ENVIRONMENTS)]
