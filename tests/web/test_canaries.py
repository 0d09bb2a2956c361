"""Recognisable secrets go in wherever secrets go in, and come out nowhere: logs, answers, tasks, metrics, traces, dumps, archives."""

import base64
import io
import logging
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import structlog
from allauth.mfa.totp.internal.auth import TOTP
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse
from kombu.transport.memory import Channel

from deploy.embedded.postgres import PROGRAMS
from gpuaas.backup.programs import programs_find
from gpuaas.backup.services import backup_make
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock, traces
from gpuaas.core.crypto import decrypt_json
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.visit import visit
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Answer, Caller
from tests.core.collector import Collector, collector
from tests.factories.credentials import kubeconfig_made
from tests.workspaces.stage import ready

Canaries = dict[str, str]


@pytest.fixture
def canaries() -> Canaries:
    """One for each way in; those that the portal makes itself are added when it shows them."""
    names = (
        *("password", "wrong password", "new password", "site token", "kubeconfig", "refused kubeconfig"),
        *("cloud secret", "cloud-init", "passphrase", "metrics token", "made-up token", "page"),
    )
    return {name: f"canary-{uuid4().hex}" for name in names}


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """Everything that is logged from DEBUG on, by every logger, as production writes it."""
    written, root = io.StringIO(), logging.getLogger()
    form = {
        key: value
        for key, value in django_settings.LOGGING["formatters"]["structured"].items()
        if key != "()"
    }
    handler = logging.StreamHandler(written)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(**form))
    loggers = [
        root,
        *(logging.getLogger(name) for name in ("kubernetes", "uvicorn.access", "keystoneauth", "urllib3")),
    ]
    before = [logger.level for logger in loggers]
    root.addHandler(handler)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.fixture
def broker(settings: Any) -> Iterator[None]:
    """It keeps in memory what it gets."""
    settings.QUEUE_ENABLED = True
    Channel.queues.clear()
    yield
    Channel.queues.clear()


@pytest.fixture
def traced(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(traces, "END_SECONDS", 60)
    with collector() as found:
        settings.TRACES_ENDPOINT = found.url
        traces.begin("web")
        yield found
        traces.end()


def held(texts: dict[str, str], canaries: Canaries) -> list[str]:
    """Which secret is where."""
    return [
        f"{secret} in {place}"
        for place, text in texts.items()
        for secret, word in canaries.items()
        if word in text
    ]


def signing_in(alice: User, canaries: Canaries) -> list[Any]:
    alice.set_password(canaries["password"])
    alice.save()
    client = Client()
    door = reverse("account_login")
    answers = [client.post(door, {"login": "alice", "password": canaries["wrong password"]})]
    answers.append(client.post(door, {"login": "alice", "password": canaries["password"]}))
    assert answers[-1].status_code == 302
    change = {"oldpassword": canaries["password"], "password1": canaries["new password"]}
    answers.append(client.post(reverse("account_change_password"), {**change, "password2": "another"}))
    same = {**change, "password2": canaries["new password"]}
    answers.append(client.post(reverse("account_change_password"), same))
    alice.refresh_from_db()
    assert alice.check_password(canaries["new password"])
    canaries["second factor"] = "CANARYJBSWY3DPEHPK3PXP"
    TOTP.activate(alice, canaries["second factor"])
    return answers


def attaching(olga: User, canaries: Canaries) -> list[Any]:
    """Sites, taken and refused, by REST and on the page."""
    api, page = Caller(olga), Client()
    page.force_login(olga)
    own = {"token": canaries["site token"], "kubeconfig": kubeconfig_made(canaries["kubeconfig"])}
    site = {"slug": "sealed", "name": "Sealed", "driver": "sandbox"}
    taken = api.post(reverse("api:platform-sites"), {**site, "credentials": own}, Idempotency_Key=uuid4().hex)
    assert taken.status == 201
    cloud = {"auth_url": "https://k.invalid", "application_credential_secret": canaries["cloud secret"]}
    bad = kubeconfig_made(canaries["refused kubeconfig"], contexts=[])
    answers = [
        api.post(
            reverse("api:platform-sites"), {**site, "slug": "a", "driver": "openstack", "credentials": cloud}
        ),
        api.post(
            reverse("api:platform-sites"),
            {**site, "slug": "b", "driver": "kubernetes", "credentials": {"kubeconfig": bad}},
        ),
        api.patch(
            reverse("api:platform-site", args=["sealed"]),
            {"credentials": {"unknown": canaries["site token"]}},
        ),
        api.post(reverse("api:platform-sites"), f'{{"credentials": "{canaries["site token"]}"'.encode()),
    ]
    assert all(answer.status >= 400 for answer in answers)
    form = {"kubeconfig": kubeconfig_made(canaries["page"], contexts=[])}
    refused = page.post(reverse("frontend:operator_site_credentials", args=["sealed"]), form)
    assert refused.status_code in {302, 422}
    assert decrypt_json(Site.objects.get(slug="sealed").credentials)["token"] == canaries["site token"]
    return [taken, *answers, refused]


def working(alice: User, project: Project, site: Site, actor: Actor, canaries: Canaries) -> list[Any]:
    """Tokens of people and of the site, which are shown once."""
    session = Caller(alice)
    slug = {"project": project.slug}
    wanted = {
        "name": "ci",
        "scopes": ["workspace:view", "workspace:create"],
        "expires_at": (clock.now() + timedelta(days=1)).isoformat(),
    }
    made = session.post(reverse("api:tokens", kwargs=slug), wanted, Idempotency_Key=uuid4().hex)
    canaries["API token"] = made.json["token"].rpartition("_")[2]
    assert Caller(token=made.json["token"]).get(reverse("api:workspaces", kwargs=slug)).status == 200
    wrong = Caller(token=f"gpa_{canaries['made-up token']}").get(reverse("api:workspaces", kwargs=slug))
    told = Caller(token=canaries["made-up token"]).post(reverse("api:node-reports"), {"stage": "booted"})
    workspace = ready(actor, project, site)
    place = {**slug, "workspace": workspace.pk}
    access = session.post(reverse("api:workspace-credential", kwargs=place), {})
    assert access.status == 201, access.json
    canaries["token at the site"] = decoded_token(access)
    return [wrong, told]


def decoded_token(access: Answer) -> str:
    """The one that the simulated site issued, from whatever document it is in."""
    text = access.content.decode()
    return text.partition("token: ")[2].partition("\\n")[0].strip()


def ordering(alice: User, actor: Actor, project: Project, site: Site, canaries: Canaries) -> None:
    """A machine whose cloud-init carries a password; it is not launched yet."""
    Site.objects.filter(pk=site.pk).update(driver="sandbox-cloud")
    Flavor.objects.filter(pool__site=site).update(disk_gib=14)
    fleet_seed(site.pk, slug=site.slug, racks=(Rack("h", 2, H100, 8),))
    dials_set(site.pk, machine_ms=0)
    site.refresh_from_db()
    room = ready(actor, project, site, name="room")
    assert visit(room.pk)
    order = {
        "name": "train-vm",
        "flavor": "h100.1",
        "image": "img-debian-12",
        "cloud_init": f"#cloud-config\npassword: {canaries['cloud-init']}\n",
    }
    place = {"project": project.slug, "workspace": room.pk}
    assert Caller(alice).post(reverse("api:machines", kwargs=place), order).status == 202
    assert canaries["cloud-init"] in decrypt_json(Machine.objects.get().cloud_init)["text"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("broker")
def test_secrets_come_out_nowhere(
    alice: User,
    as_alice: Actor,
    olga: User,
    project: Project,
    site: Site,
    canaries: Canaries,
    said: io.StringIO,
    traced: Collector,
    settings: Any,
    tmp_path: Path,
) -> None:
    settings.POSTGRES_PROGRAMS, settings.METRICS_TOKEN = PROGRAMS, canaries["metrics token"]
    answers = [*signing_in(alice, canaries), *attaching(olga, canaries)]
    answers += working(alice, project, site, as_alice, canaries)
    ordering(alice, as_alice, project, site, canaries)

    scraped = Client(headers={"Authorization": f"Bearer {canaries['metrics token']}"})
    nobody = Client(headers={"Authorization": f"Bearer {canaries['made-up token']}"})
    traces.end()
    archive = backup_make(folder=tmp_path, passphrase=canaries["passphrase"])
    texts = {
        "the logs": said.getvalue(),
        "the traces": traced.raw.decode("latin1"),
        "the tasks": "".join(map(task_text, messages())),
        "the metrics": "".join(
            scraped.get(path).content.decode() for path in ("/metrics", "/metrics/portal")
        ),
        "the health": scraped.get("/health/parts").content.decode() + nobody.get("/metrics").content.decode(),
        "the document of the API": scraped.get(reverse("api:schema")).content.decode(),
        "a dump": dumped("pg_dump"),
        "the archive": dumped("pg_restore", "--file=-", str(archive / "database.dump"), connected=False),
        **{f"the archive's {path.name}": path.read_bytes().decode("latin1") for path in archive.iterdir()},
        **{f"answer {n}: {text_of(each)[:60]}": text_of(each) for n, each in enumerate(answers)},
    }
    assert all(texts.values())
    assert "site.create" in texts["a dump"]
    assert "catalog.probe" in texts["the tasks"]
    assert held(texts, canaries) == []


def messages() -> list[Any]:
    return [message for queue in Channel.queues.values() for message in list(queue.queue)]


def task_text(message: Any) -> str:
    return f"{message['headers']} {base64.b64decode(message['body']).decode()}"


def test_a_secret_that_came_out_would_be_found(canaries: Canaries) -> None:
    assert held({"a log": f"x{canaries['page']}x", "another": "nothing"}, canaries) == ["page in a log"]


def dumped(program: str, *words: str, connected: bool = True) -> str:
    """Of the whole database with its sessions, as whoever gets at it would read it."""
    with programs_find().running(program, *words, connected=connected, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text: bytes = process.stdout.read()
    return text.decode()


def text_of(answer: Any) -> str:
    body: bytes = answer.content
    return f"{answer.headers}{body.decode()}"
