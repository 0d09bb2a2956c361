"""One cloud: started, brought back, interrupted on purpose, and stopped."""

import base64
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from deploy.lab.base import BaseLab, print_report
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, wait_limit, write_private
from deploy.lab.gobuild import Report
from deploy.lab.guest import Image, Machine, Wishes, machine_at
from deploy.lab.holds import HOME
from deploy.lab.locks import locked
from deploy.lab.openstack import schemas
from deploy.lab.openstack.config import Config
from deploy.lab.openstack.install import Installation
from deploy.lab.openstack.services import ALIASES, APIS, BALANCING, CLOUD, STORES, Services
from deploy.lab.openstack.settings import DEFAULT_PORT_BASE, DEFAULT_STATE_DIR, PORTS, Settings
from deploy.lab.ports import free_base
from deploy.lab.processes import Process, ProgramStatus, wait_until

STOP_LIMIT_S = 15.0


class Lab(BaseLab):
    def __init__(
        self,
        *,
        state_dir: Path | str = DEFAULT_STATE_DIR,
        report: Report = print_report,
        installation: Installation | None = None,
    ) -> None:
        super().__init__(state_dir, report)
        self._installation = installation or Installation()

    @property
    def clouds(self) -> Path:
        """clouds.yaml with `lab` (admin of the project admin) and `lab-system` (system scope); there after `up`."""
        return self.state_dir / "clouds.yaml"

    @property
    def openstack(self) -> str:
        """The Python of the lab's own environment, where openstacksdk is."""
        return self._installation.python

    @property
    def wishes(self) -> Wishes:
        """The machines that boot, and where they find the portal."""
        return Wishes(self._config().machines)

    def machine(self, name: str) -> Machine:
        """To look into one that boots. Raises KeyError where there is none of the name."""
        wanted = {wish.name: wish for wish in self.wishes.all().values()}
        return machine_at(self._config().machines, wanted[name], Image().root)

    def build(self, *, balancing: bool = False) -> None:
        """Only what takes minutes: Debian's packages and those of PyPI."""
        self._installation.ensure(self._report)
        if balancing:
            self._installation.ensure_balancing(self._report)

    def status(self) -> list[ProgramStatus]:
        return [ProgramStatus(p.name, p.pid(), p.memory_mib()) for p in self._processes()]

    def up(
        self,
        *,
        fresh: bool = False,
        port_base: int | None = None,
        topology: Path | str | None = None,
        limit_model: str | None = None,
        balancing: bool | None = None,
        machines: bool | None = None,
        debug: bool | None = None,
    ) -> None:
        """Returns when every host and GPU is there. Starts only what does not run; None means: as before. `balancing`: with Octavia,
        which comes to a lab that runs without a restart. `machines`: servers with user data boot, see
        `deploy/lab/guest` (root)."""
        balancing = self._settings().balancing if balancing is None else balancing
        self.build(balancing=balancing)
        if self._settings().machines if machines is None else machines:
            Image().ensure(self._report)
        with self._locked():
            before = self._settings()
            settings = before.changed(
                topology=str(Path(topology).absolute()) if topology else None,
                limit_model=limit_model,
                balancing=balancing or before.balancing,
                machines=machines,
                debug=debug,
            )
            unchanged = settings == before.changed(balancing=settings.balancing)
            outdated = schemas.are_outdated(self.state_dir / "data", self._installation)
            if outdated:
                self._report("its data are of other programs than these: it begins anew")
            goes_on = unchanged and port_base in (None, settings.port_base) and not (fresh or outdated)
            if not (goes_on and all(self._process(one).pid() for one in self._services().basic())):
                settings = self._restart(settings, port_base, recreate=fresh or outdated)
            if settings.balancing and not self._process(BALANCING).pid():
                self._start_balancing(settings)

    def _restart(self, settings: Settings, port_base: int | None, *, recreate: bool) -> Settings:
        """As they are from then on."""
        self._stop_all()
        if recreate:
            shutil.rmtree(self.state_dir / "data", ignore_errors=True)
        with locked(CACHE / "gpuaas-openstack-lab.ports", limit=5 * wait_limit()):
            base = free_base(
                PORTS.values(), given=port_base, before=settings.port_base, first=DEFAULT_PORT_BASE
            )
            settings = settings.changed(port_base=base)
            settings.save(self._settings_path)
            self._start_stores(settings)
        self._start_services(settings)
        self._report(f"ready: {len(self._config().topology['hosts'])} hosts, {self.clouds}")
        return settings

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """For tests of an outage; `start_program` ends it."""
        process = self._process(self._known(name))
        with self._locked():
            process.stop(kill=kill)

    def start_program(self, name: str) -> None:
        """Undoes `stop_program`; returns when an API answers again."""
        known = self._known(name)
        with self._locked():
            self._start(self._config(), known)
            if known in APIS:
                self._wait_http(known)

    def pause_program(self, name: str) -> None:
        """Connections stay open and nothing answers; for tests of timeouts."""
        self._process(self._known(name)).pause()

    def resume_program(self, name: str) -> None:
        self._process(self._known(name)).resume()

    def policies(self, service: str, rules: Mapping[str, str]) -> None:
        """Instead of the defaults of nova, neutron, glance, … from its next request on; no rules take them back."""
        write_private(self.state_dir / "etc" / service / "policy.yaml", json.dumps(dict(rules)))

    # -- parts ------------------------------------------------------------------------------------------------------

    @property
    def _settings_path(self) -> Path:
        return self.state_dir / "settings.json"

    def _settings(self) -> Settings:
        return Settings.load(self._settings_path)

    def _config(self) -> Config:
        return Config(self.state_dir, self._settings(), self._installation)

    def _services(self) -> Services:
        return Services(self._config(), self._installation)

    def _process(self, name: str) -> Process:
        return Process(self.state_dir, name, stop_limit=STOP_LIMIT_S)

    def _processes(self) -> list[Process]:
        return [self._process(name) for name in self._services().names()]

    def _known(self, given: str) -> str:
        name = ALIASES.get(given, given)
        if not self._settings_path.exists():
            raise LabError(f"there is no lab in {self.state_dir}; `up` makes one")
        if name not in self._services().names():
            raise LabError(f"there is no program {given!r}; known: {', '.join(self._services().names())}")
        return name

    def _write_config(self, settings: Settings) -> Config:
        begun = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        config = Config(self.state_dir, settings, self._installation)
        config.write(begun=begun, seconds=wait_limit())
        return config

    def _start_stores(self, settings: Settings) -> None:
        """Database and message broker, and the tables in it; from then on the ports are taken."""
        config = self._write_config(settings)
        mysql, cached = config.data / "mysql", schemas.copy_find(self._installation)
        ready = mysql / schemas.MARK
        if not ready.exists() and cached.exists():
            shutil.rmtree(mysql, ignore_errors=True)
            shutil.copytree(cached, mysql)
        if not ready.exists():
            self._report("making the databases, once: about half a minute")
            schemas.database_install(config, self._installation, self._command)
            self._start_database(config)
            schemas.schemas_make(config, self._installation, self._services(), self._command)
            self._process("mariadb").stop()
            ready.write_text(self._installation.fingerprint())
            schemas.copy_keep(config, self._installation)
        for name in ("epmd", "rabbitmq"):
            self._start(config, name)
        self._start_database(config)
        self._wait_port("rabbitmq", settings.port("amqp"))

    def _start_database(self, config: Config) -> None:
        self._start(config, "mariadb")
        self._wait_port("mariadb", config.settings.port("mysql"))

    def _start_services(self, settings: Settings) -> None:
        config = self._config()
        self._keys(config)
        filled = config.data / f"filled-{settings.port_base}"
        if not filled.exists():
            self._bootstrap(config)
        for name in ("identity", "placement", "network"):
            self._start(config, name)
        self._wait_http("identity")
        self._wait_http("placement")
        if not filled.exists():
            self._fill("identity")  # before any of Nova, which signs in as it starts
        for name in ("conductor", "compute", "scheduler", "image", "block-storage", "volumes"):
            self._start(config, name)
        self._fill("conductor")
        for name in self._services().basic():
            self._start(config, name)
        for name in ("network", "compute", "image", "block-storage"):
            self._wait_http(name)
        self._fill("hosts")
        if not filled.exists():
            self._discover_hosts()
            self._fill("resources")
            filled.write_text("")
        for process in map(self._process, self._services().basic()):
            if not process.pid():
                raise LabError(f"{process.name} ended:\n{process.log_end()}")

    def _discover_hosts(self) -> None:
        """Nova's scheduler maps new hosts too, once a minute. Where both do, the later one fails, and what is left is
        mapped by doing it again."""
        nova = [self._installation.program("nova-manage"), *self._services().nova_options()]
        for left in reversed(range(5)):
            try:
                self._command([*nova, "cell_v2", "discover_hosts"])
                break
            except LabError as error:
                if not left or "Duplicate host mapping" not in str(error):
                    raise

    def _start_balancing(self, settings: Settings) -> None:
        settings.save(self._settings_path)
        config = self._write_config(settings)
        self._fill("balancing")
        schemas.balancing_make(config, self._installation, self._services(), self._command)
        self._start(config, BALANCING)
        self._wait_http(BALANCING)
        self._report(f"ready: load balancers, {settings.url(BALANCING)}")

    def _keys(self, config: Config) -> None:
        """As `keystone-manage fernet_setup` makes them, without its two seconds: 0 is the next one, 1 the one in use."""
        for folder in ("fernet", "credential"):
            for number in ("0", "1"):
                path = config.data / "keystone" / folder / number
                if not path.exists():
                    write_private(path, base64.urlsafe_b64encode(os.urandom(32)).decode())

    def _bootstrap(self, config: Config) -> None:
        url = config.settings.url("identity")
        self._command(
            [
                self._installation.program("keystone-manage"),
                *("--config-file", str(config.etc / "keystone" / "keystone.conf"), "bootstrap"),
                *("--bootstrap-username", "admin", "--bootstrap-project-name", "admin"),
                *("--bootstrap-role-name", "admin", "--bootstrap-service-name", "keystone"),
                *("--bootstrap-region-id", "RegionOne"),
                *("--bootstrap-public-url", url, "--bootstrap-internal-url", url),
            ],
            {"OS_BOOTSTRAP_PASSWORD": config.passwords()["admin"]},
        )

    def _fill(self, step: str) -> None:
        self._command([self._installation.python, str(CLOUD / "fill.py"), str(self._config().facts), step])

    def _command(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        """Run something to its end."""
        done = subprocess.run(
            command,
            env={
                **self._services().environment(),
                **{name: str(self.state_dir) for name in ("HOME", HOME)},
                **(environment or {}),
            },
            cwd=self.state_dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            words = " ".join(Path(word).name for word in command[:4])
            raise LabError(f"{words} failed:\n{(done.stdout + done.stderr)[-4000:]}")

    def _start(self, config: Config, name: str) -> None:
        service = Services(config, self._installation).get(name)
        process = self._process(name)
        if process.runs(service.command):
            process.resume()
            return
        process.stop()
        process.start(service.command, service.environment)

    def _stop_all(self) -> None:
        """The stores last: what still runs would fill its log with what it cannot reach."""
        names = self._services().names()
        for name in [*reversed([name for name in names if name not in STORES]), *reversed(STORES)]:
            self._process(name).stop()

    def _wait_port(self, name: str, port: int) -> None:
        def answers() -> bool:
            with socket.socket() as probe:
                probe.settimeout(1)
                return probe.connect_ex(("127.0.0.1", port)) == 0

        self._wait(name, answers)

    def _wait_http(self, name: str) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = self._settings().url(name)

        def answers() -> bool:
            try:
                opener.open(url, timeout=20).close()
            except urllib.error.HTTPError as error:
                return error.code < 500
            except OSError:
                return False
            return True

        self._wait(name, answers)

    def _wait(self, name: str, probe: Callable[[], bool]) -> None:
        wait_until(probe, "it does not answer", [self._process(name)])
