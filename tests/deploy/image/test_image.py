"""The image that is built here, unpacked and run as its user on a read-only file system."""

import http.client
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from deploy.image import debian
from deploy.image.build import Built, build
from deploy.image.python import STATIC
from deploy.image.runtime import LOADERS, PACKAGES
from gpuaas import __version__
from tests.deploy.image.rootfs import Rootfs
from tests.deploy.installed import SAFE
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until

NAME = "registry.example.org/gpuaas"
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not shutil.which("apt-get"), reason="the image is made of Debian's packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may become the image's user in a namespace"),
]
PDF = """
import sys, weasyprint
page = weasyprint.HTML(string="<p style='font-family: sans-serif'>1 × H100, 3,50 €</p>").render()
sys.stdout.write(str(page.write_pdf(uncompressed_pdf=True).count(b"DejaVu")))
"""


def quietly(_words: str) -> None:
    pass


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("image"), name=NAME, report=quietly)


@pytest.fixture(scope="module")
def image(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Rootfs:
    return Rootfs.unpack(built.archive, tmp_path_factory.mktemp("rootfs"))


def test_the_same_commit_is_the_same_image(built: Built, tmp_path: Path) -> None:
    again = build(tmp_path, name=NAME, report=quietly)
    assert (again.name, again.digest) == (f"{NAME}:{__version__}", built.digest)
    assert again.bill.read_bytes() == built.bill.read_bytes()


def test_built_from_nothing_it_is_the_same_image(built: Built, tmp_path: Path) -> None:
    assert build(tmp_path, name=NAME, report=quietly, cache=tmp_path / "cache").digest == built.digest


def test_it_has_no_shell_no_package_manager_and_nothing_setuid(image: Rootfs) -> None:
    programs = [path for path in image.folder.glob("**/bin/*") if "dist-packages" not in path.parts]
    assert {path.name for path in programs} - {"python3"} == {"python3.11", "gpuaas-portal"}
    assert not list(image.folder.glob("**/sbin/*"))
    special = stat.S_ISUID | stat.S_ISGID
    assert not [path for path in image.folder.rglob("*") if path.lstat().st_mode & special]
    found = [path for path in image.folder.rglob("*") if not path.is_symlink()]
    others = {str(path.relative_to(image.folder)) for path in found if path.stat().st_mode & stat.S_IWOTH}
    assert others == {"tmp", "var/tmp", "var/lock"}


def test_every_library_that_is_asked_for_is_in_it(image: Rootfs) -> None:
    """By the image's own loader: nothing of the machine is found."""
    loader = "/" + LOADERS[platform.machine()]
    missing = {}
    for path in image.libraries():
        inside = f"/{path.relative_to(image.folder)}"
        listed = subprocess.run(
            ["/usr/sbin/chroot", str(image.folder), loader, "--list", inside],
            capture_output=True,
            text=True,
            check=False,
        )
        lost = [
            line.split()[0] for line in (listed.stdout + listed.stderr).splitlines() if "not found" in line
        ]
        if lost:
            missing[inside] = lost
    assert not missing


def test_postgresqls_programs_are_there_and_can_do_tls(image: Rootfs) -> None:
    """pg_dump reads every server up to its own version. Nobody listens at port 9, which is asked by TLS."""
    (folder,) = [
        word.partition("=")[2] for word in image.config["Env"] if word.startswith("GPUAAS_POSTGRES_PROGRAMS=")
    ]
    for name in ("pg_dump", "pg_restore", "psql"):
        assert f"{name} (PostgreSQL) 18." in image.run(f"{folder}/{name}", "--version")
    process = image.start(f"{folder}/psql", "host=127.0.0.1 port=9 sslmode=require dbname=gpuaas")
    said, _ = process.communicate(timeout=60)
    assert "Connection refused" in said
    others = {path.name for path in (image.folder / folder.lstrip("/")).iterdir()}
    assert others == {"pg_dump", "pg_restore", "psql"}


def test_all_python_is_compiled(image: Rootfs) -> None:
    sources = list((image.folder / PACKAGES / "gpuaas").rglob("*.py"))
    assert len(sources) > 400
    assert not [
        path
        for path in sources
        if not (path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc").exists()
    ]


def test_the_bill_has_everything_that_is_in_it(built: Built, image: Rootfs) -> None:
    bill = json.loads(built.bill.read_text())["components"]
    assert {one["name"] for one in bill if one["purl"].startswith("pkg:deb")} == set(debian.PACKAGES)
    packages = image.folder / PACKAGES
    installed = {path.name.partition("-")[0].lower() for path in packages.glob("*.dist-info")} - {"gpuaas"}
    listed = {re.sub("[-.]", "_", one["name"]).lower() for one in bill if one["purl"].startswith("pkg:pypi")}
    assert listed == {re.sub("[-.]", "_", name) for name in installed}
    assert all(one["licenses"] for one in bill)


def test_it_runs_as_its_user_on_files_that_nobody_may_change(image: Rootfs) -> None:
    assert image.run("gpuaas-portal", "--version") == f"{__version__}\n"
    assert "no issues" in image.run("gpuaas-portal", "check", "--deploy", "--tag", "security", **SAFE)
    assert image.run("python3.11", "-c", "import os; print(os.getuid(), os.getgid())") == "10001 10001\n"
    assert int(image.run("python3.11", "-c", PDF)) > 0
    zone = "import zoneinfo, ssl; zoneinfo.ZoneInfo('Europe/Berlin'); print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(image.run("python3.11", "-c", zone)) > 100


def test_health_and_files_come_from_it(image: Rootfs) -> None:
    """The web process as it starts by itself, without a database, which its liveness does not need; then it ends in order."""
    (style,) = (image.folder / STATIC / "frontend/assets").glob("main-*.css")
    port = free_port()
    words = [*image.config["Entrypoint"], *image.config["Cmd"], "--host", "127.0.0.1", "--port", str(port)]
    process = image.start(*words, **{**SAFE, "GPUAAS_DATABASE_URL": "postgres://portal@127.0.0.1:9/gpuaas"})

    def status(path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", path, headers={"Host": "gpu.example.org", "X-Forwarded-Proto": "https"})
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    try:
        until(lambda: process.poll() is not None or status("/health/live") == 200, "it is alive")
        assert status(f"/static/frontend/assets/{style.name}") == 200
        assert status("/static/frontend/assets/none.css") == 404
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in {0, 128 + signal.SIGTERM, -signal.SIGTERM}, said
