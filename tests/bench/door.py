"""What the door adds to a request: 200 environments behind it, each asked in turn by somebody who has signed in to it, against the
same bytes sent straight to the server that stands for their pods.

The door is the process that `manage.py door` starts, with its Envoy, at a site whose pods it reaches by their addresses. The ways are
taken in turn, so that what else the machine does is in all of them, and both servers have as many connections. A direct connection is
TLS, as one by the door is, and in a row's note plain TCP besides. A new one is a whole handshake, nothing of an earlier one is used.

Behind the door are JupyterLab, which most environments run, and a server that answers at once: beside the one a person notices what the
door adds, beside the other it shows what that is.

A door that has just started has no way to any pod yet, and finds it in the database and at the site for the first request to each. So
does one for which nobody has asked for a minute.
"""

import re
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from django.test import Client, override_settings

from deploy.embedded.certificate import certificate_make
from deploy.embedded.environment import ROOT
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.environments.door.desk import PASS
from gpuaas.environments.door.passes import ticket_use, ticket_write
from gpuaas.environments.models import Environment
from gpuaas.environments.services.access import hashed
from gpuaas.providers.kubeapi.client import Api
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tenants.selectors import actor_for
from tests.bench.listed import FEW, Listed
from tests.bench.pods import HERE, Pod, at_once, jupyterlab
from tests.bench.ready import lab_kubeconfig
from tests.bench.table import Measured
from tests.environments.door.stage import DOMAIN, Visitor, host_of
from tests.environments.stage import kind, row_in
from tests.factories.catalog import SiteFactory
from tests.factories.tenants import ProjectFactory, ProjectMembershipFactory, UserFactory
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until
from tests.metering.meters import environment_here

ENVIRONMENTS, KEPT_ROUNDS, NEW_ROUNDS = 200, 4, 2
WARM = 6  # rounds before: each of Envoy's threads finds a way of its own to each pod, and keeps it
THERE, FEW_THERE = "bench-door", "bench-door-few"
CHUNK, SECONDS = 1 << 16, 20.0
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")


@dataclass(frozen=True)
class Target:
    """An environment, and what somebody who is signed in to it sends."""

    host: str
    cookie: str
    path: str = "/"

    @property
    def request(self) -> bytes:
        head = (
            f"GET {self.path} HTTP/1.1\r\nHost: {self.host}\r\nAccept: */*\r\nCookie: {self.cookie}\r\n\r\n"
        )
        return head.encode()


def measure() -> list[Measured]:
    kubeconfig, port = lab_kubeconfig(), free_port()
    user, environments = _stage(kubeconfig, port)
    space = f"/api/v1/namespaces/{environments[0].workspace.external_name}"
    api, targets, rows = Api(kubeconfig), _signed_in(user, environments), []
    try:
        _pods(api, space, environments)
        with TemporaryDirectory() as name:
            files = certificate_make(Path(name), DOMAIN)
            for serve in (at_once, jupyterlab):
                with serve(port, *files) as pod:
                    rows += _measured(pod, files, targets)
    finally:
        api.delete(space)
    return [*rows, *_lists(user)]


def _measured(pod: Pod, files: tuple[Path, Path], targets: list[Target]) -> list[Measured]:
    tls, rows = ssl.create_default_context(cafile=files[0]), []
    with _door(*files) as port:
        ways = Way(port, tls), Way(pod.secure, tls), Way(pod.port)
        _known(Visitor(port), targets)
        for number, (what, path) in enumerate(pod.paths.items()):
            asked = [replace(each, path=path) for each in targets]
            if not number:
                rows += _rows(f"{what}, a door's first to each", _by_new(ways, asked, 1))
                _by_new(ways[:1], asked, WARM)
            with _as_many(pod, ways[1], asked[0]):
                rows += _rows(f"{what}, kept connection", _by_kept(ways, asked))
                rows += _rows(f"{what}, new connection", _by_new(ways, asked, NEW_ROUNDS))
    return rows


@dataclass
class Times:
    """In ms, until the first byte of an answer and until its last."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


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


Asked = Callable[[Target], tuple[float, float]]
# by the door, straight by TLS, straight and plain
Ways = tuple[Way, ...]


def _asked(connection: socket.socket, target: Target, began: float) -> tuple[float, float]:
    """Seconds until the first byte and until the last."""
    connection.sendall(target.request)
    head, end, body = connection.recv(CHUNK).partition(b"\r\n\r\n")
    first = time.perf_counter()
    found = LENGTH.search(head)
    if not (end and found and head.startswith(b"HTTP/1.1 200 ")):
        raise SystemExit(f"{target.host} answers {head[:200]!r}")
    left = int(found[1]) - len(body)
    while left > 0:
        part = connection.recv(CHUNK)
        if not part:
            raise SystemExit(f"{target.host} has ended the connection")
        left -= len(part)
    return first - began, time.perf_counter() - began


def _by_kept(ways: Ways, targets: list[Target]) -> list[Times]:
    """All connections are open at the same time, 200 of each kind."""
    connections = {(way, each.host): way.opened(each) for each in targets for way in ways}

    def asked(way: Way, target: Target) -> tuple[float, float]:
        return _asked(connections[way, target.host], target, time.perf_counter())

    try:
        _in_turn([partial(asked, way) for way in ways], targets, 1)  # not counted: the first of a connection
        return _in_turn([partial(asked, way) for way in ways], targets, KEPT_ROUNDS)
    finally:
        for each in connections.values():
            each.close()


@contextmanager
def _as_many(pod: Pod, straight: Way, target: Target) -> Iterator[None]:
    """Both servers have as many connections. One server stands for 200 pods, and has all that the door keeps to them: with 400 more,
    JupyterLab answers its list of files a third slower, door or not."""
    with ExitStack() as stack:
        for _ in range(_connections(pod.port) - _connections(pod.secure)):
            connection = stack.enter_context(closing(straight.opened(target)))
            _asked(connection, target, 0)
        yield


def _connections(port: int) -> int:
    """Of the server at this port of this machine, which are open."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    here, established = f":{port:04X}", "01"
    return sum(row[1].endswith(here) and row[3] == established for row in rows)


def _by_new(ways: Ways, targets: list[Target], rounds: int) -> list[Times]:
    return _in_turn([way.anew for way in ways], targets, rounds)


def _in_turn(asked: list[Asked], targets: list[Target], rounds: int) -> list[Times]:
    """Each way is the first as often as another one: what has waited longest is the slowest."""
    found = [Times() for _ in asked]
    pairs = list(zip(asked, found, strict=True))
    for number, target in enumerate(targets * rounds):
        at = number % len(pairs)
        for ask, times in pairs[at:] + pairs[:at]:
            first, whole = ask(target)
            times.first.append(first * 1000)
            times.whole.append(whole * 1000)
    return found


def _rows(what: str, times: list[Times]) -> list[Measured]:
    return [
        _row(f"{what}, first byte, p95", [each.first for each in times]),
        _row(f"{what}, whole answer, p95", [each.whole for each in times]),
    ]


def _row(what: str, found: list[list[float]]) -> Measured:
    slow, least, plain = (statistics.quantiles(each, n=20)[18] for each in found)
    half, half_least, half_plain = map(statistics.median, found)
    note = (
        f"{slow / least:.2f} times a direct connection by TLS, {slow / plain:.2f} times a plain one of {plain:.2f} ms; "
        f"median {half:.2f} ms, {half / half_least:.2f} and {half / half_plain:.2f} times; "
        f"{len(found[0]):,} requests to {ENVIRONMENTS} environments"
    )
    return Measured(what, "ms", slow, least, "a direct connection, TLS", higher_is_better=False, note=note)


# -- what is asked -------------------------------------------------------------------------------------------------


@contextmanager
def _door(certificate: Path, key: Path) -> Iterator[int]:
    """Its port."""
    port = free_port()
    domain = f"{DOMAIN}:{port}"
    given = {"DOMAIN": domain, "CERTIFICATE": certificate, "KEY": key, "BIND": f"{HERE}:{port}"}
    named = {f"GPUAAS_DOOR_{name}": str(value) for name, value in given.items()}
    with (
        certificate.with_name("door.log").open("wb") as log,
        override_settings(DOOR_DOMAIN=domain, DOOR_CERTIFICATE=str(certificate)),
        subprocess.Popen(
            [sys.executable, "manage.py", "door"],
            cwd=ROOT,
            env={**environment_here(), **named},
            stdout=log,
        ) as process,
    ):
        try:
            yield port
        finally:
            process.terminate()


def _signed_in(user: User, environments: list[Environment]) -> list[Target]:
    """By the portal's tickets, all in one session of it."""
    client, browser = Client(), "b" * 43
    client.force_login(user)
    write = partial(ticket_write, actor=actor_for(user=user), user=user, browser=hashed(browser))
    write = partial(write, session_key=client.session.session_key or "")
    targets = []
    for each in environments:
        ticket = write(environment=each)
        cookie = ticket_use(label=each.label or "", ticket=ticket, browser=browser)
        targets.append(Target(host_of(each), f"{PASS}={cookie}"))
    return targets


def _known(visitor: Visitor, targets: list[Target]) -> None:
    until(lambda: all(_is_known(visitor, each.host) for each in targets), "the door knows all environments")


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
    """With a second project, whose list is short."""
    site = SiteFactory.create(
        slug="bench-door",
        driver="kubernetes",
        credentials=encrypt_json({"kubeconfig": kubeconfig}),
        options={"environments_direct": True},
    )
    user = UserFactory.create(username="bench-door")
    kind(port=port, readiness="/")
    _environments(user, site, FEW_THERE, FEW, state="suspended")
    return user, _environments(user, site, THERE, ENVIRONMENTS)


def _environments(user: User, site: Site, slug: str, count: int, **changes: str) -> list[Environment]:
    project = ProjectFactory.create(slug=slug)
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
    return [row_in(workspace, f"bench-{number:03}", **changes) for number in range(count)]


def _lists(user: User) -> list[Measured]:
    client = Client()
    client.force_login(user)
    return Listed("environments", ENVIRONMENTS, FEW_THERE, THERE).measured(client)
