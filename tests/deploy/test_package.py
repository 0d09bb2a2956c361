"""The wheel: it has all that the portal needs, and its program runs away from the checkout."""

import re
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.embedded import redis
from deploy.embedded.environment import ROOT
from deploy.image import checkout
from gpuaas import __version__
from gpuaas.core.models import Process
from tests.deploy.installed import SAFE, Installed, install
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until
from tests.metering.meters import database_here

# what git has for people and for the build of the front end; every other file is a part of the portal
NOT_SHIPPED = re.compile(
    r".*\.md|frontend/(src/.*|scripts/.*|[^/]*\.json|vite\.config\.ts|icons\.txt|\.gitignore)"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout.wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def portal(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    yield redis.start(tmp_path / "redis")
    redis.stop(tmp_path / "redis")


def test_the_wheel_has_what_git_has_and_the_built_front_end(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tracked = checkout.git("ls-files", "--", *checkout.PACKAGES).splitlines()
    built = [path for path in (ROOT / checkout.BUILT).rglob("[!.]*") if path.is_file()]
    wanted = {name for name in tracked if not NOT_SHIPPED.fullmatch(name)}
    wanted |= {str(path.relative_to(ROOT)) for path in built}
    assert {name for name in names if ".dist-info/" not in name} == wanted


def test_the_same_files_are_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert checkout.wheel(tmp_path).read_bytes() == wheel.read_bytes()


def test_it_says_its_version_and_its_commands(portal: Installed) -> None:
    assert portal.run("--version") == (0, f"{__version__}\n")
    status, said = portal.run("help", **SAFE)
    assert status == 0
    listed = said.split()
    assert {
        "web",
        "worker",
        "scheduler",
        "meter",
        "migrate",
        "check",
        "site_attach",
        "createsuperuser",
    } <= set(listed)


def test_settings_are_those_of_production_and_checked(portal: Installed) -> None:
    assert portal.run("check", "--deploy", "--tag", "security", **SAFE)[0] == 0
    status, said = portal.run("check", "--deploy", **SAFE)
    assert status == 1
    assert "gpuaas.database" in said


def test_a_setting_that_is_missing_or_unsafe_is_named(portal: Installed) -> None:
    status, said = portal.run("web")
    assert (status, said) == (2, "gpuaas-portal: GPUAAS_SECRET_KEY (or GPUAAS_SECRET_KEY_FILE) is not set\n")
    status, said = portal.run("worker", **{**SAFE, "GPUAAS_ALLOWED_HOSTS": "*"})
    assert status == 2
    assert "GPUAAS_ALLOWED_HOSTS" in said
    assert "secret-word" not in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("web", "--port", "http"), "--port"),
        (("web", "--workers", "2"), "--workers"),
        (("worker", "--concurrency", "many"), "--concurrency"),
        (("worker", "--queue"), "--queue"),
        (("scheduler", "--schedule"), "--schedule"),
        (("meter", "--site"), "--site"),
        (("serve",), "Unknown command: 'serve'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_word_is_refused_by_name(portal: Installed, words: tuple[str, ...], named: str) -> None:
    status, said = portal.run(*words, **SAFE)
    assert status != 0
    assert named in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("web", "--host", "127.0.0.1", "--port"), "web"),
        (("worker", "--queues", "celery", "--concurrency", "1"), "worker"),
        (("scheduler",), "scheduler"),
        (("meter",), "meter"),
    ],
    ids=["web", "worker", "scheduler", "meter"],
)
@pytest.mark.django_db(transaction=True)
def test_each_process_is_alive_until_it_is_told_to_end(
    portal: Installed, broker: str, tmp_path: Path, words: tuple[str, ...], kind: str
) -> None:
    """Its heartbeat is seen, and leaves no row behind: it ended in order."""
    services = {"GPUAAS_DATABASE_URL": database_here(), "GPUAAS_BROKER_URL": broker, "TMPDIR": str(tmp_path)}
    port = [str(free_port())] if kind == "web" else []
    process = portal.start(*words, *port, **{**SAFE, **services})
    try:
        until(
            lambda: process.poll() is not None or Process.objects.filter(kind=kind).exists(), "its heartbeat"
        )
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in {0, -signal.SIGTERM}, said
    assert "Traceback" not in said
    assert not Process.objects.exists()
