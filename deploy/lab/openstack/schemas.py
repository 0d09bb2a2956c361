"""The databases' tables: half of what a first start takes, so they are made once and copied from then on."""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.lab.openstack.config import Config
from deploy.lab.openstack.install import Installation
from deploy.lab.openstack.services import Services

Command = Callable[[Sequence[str]], None]
# Nova fills these in from its own configuration, so that the copy serves labs with other ports and passwords
CELL0 = "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell0"
CELL1 = "{scheme}://{username}:{password}@{hostname}:{port}/{path}"
TRANSPORT = "{scheme}://{username}:{password}@{hostname}:{port}/{path}"
MARK = "gpuaas-schemas"


def are_outdated(data: Path, installation: Installation) -> bool:
    """Whether a lab's databases are those of other programs."""
    mark = data / "mysql" / MARK
    return mark.exists() and mark.read_text() != installation.fingerprint()


def copy_find(installation: Installation) -> Path:
    """Where the databases are kept as they are right after the schemas were made."""
    return installation.folder / f"schemas-{installation.fingerprint()[:12]}"


def database_install(config: Config, installation: Installation, run: Command) -> None:
    """An empty server's files."""
    mysql = config.data / "mysql"
    shutil.rmtree(mysql, ignore_errors=True)
    run(
        [
            installation.program("mariadb-install-db"),
            f"--defaults-file={config.etc / 'my.cnf'}",
            f"--datadir={mysql}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        ]
    )


def schemas_make(config: Config, installation: Installation, services: Services, run: Command) -> None:
    """While the database runs."""
    nova = [installation.program("nova-manage"), *services.nova_options("nova.conf", "nova-db.conf")]

    def of_nova() -> None:
        run([*nova, "api_db", "sync"])
        run([*nova, "cell_v2", "map_cell0", "--database_connection", CELL0])
        run([*nova, "db", "sync"])
        words = ["--name", "cell1", "--database_connection", CELL1, "--transport-url", TRANSPORT]
        run([*nova, "cell_v2", "create_cell", *words])

    def of(program: str, file: str, *words: str) -> None:
        run([installation.program(program), "--config-file", str(config.etc / file), *words])

    def of_small_ones() -> None:
        of("keystone-manage", "keystone/keystone.conf", "db_sync")
        of("placement-manage", "placement/placement.conf", "db", "sync")
        of("glance-manage", "glance/glance-api.conf", "db_sync")
        of("cinder-manage", "cinder/cinder.conf", "db", "sync")

    def of_neutron() -> None:
        of("neutron-db-manage", "neutron/neutron.conf", "upgrade", "heads")

    with ThreadPoolExecutor() as pool:
        for job in [pool.submit(make) for make in (of_nova, of_neutron, of_small_ones)]:
            job.result()


def balancing_make(
    config: Config, installation: Installation, services: Services, run: Callable[..., None]
) -> None:
    """Octavia's, once for each list of its pins; while the database runs."""
    made, pins = config.data / "octavia-tables", installation.balancing.name
    if not made.exists() or made.read_text() != pins:
        program = [str(installation.balancing / "bin" / "octavia-db-manage"), *services.balancing_options()]
        run([*program, "upgrade", "head"], services.balancing_environment())
        made.write_text(pins)


def copy_keep(config: Config, installation: Installation) -> None:
    """After the database was stopped. Whoever is first wins; all copies are alike."""
    cached = copy_find(installation)
    half = cached.with_name(f"{cached.name}.{config.state_dir.name}")
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(config.data / "mysql", half)
    if cached.exists():
        shutil.rmtree(half)
    else:
        half.rename(cached)
