"""Command line and environment of every service, in the order in which they start."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import deploy
from deploy.lab.files import CACHE
from deploy.lab.openstack.config import Config
from deploy.lab.openstack.install import SEARCH, Installation
from deploy.lab.openstack.settings import HERE

CLOUD = HERE / "cloud"
BALANCING = "load-balancer"  # only where it is asked for
MACHINES = "machines"  # this too: servers that boot
APIS = {
    "identity": "keystone.wsgi.api",
    "placement": "placement.wsgi.api",
    "network": "neutron.wsgi.api",
    "compute": "nova.wsgi.osapi_compute",
    "image": "glance.wsgi.api",
    "block-storage": "cinder.wsgi.api",
    BALANCING: "balancers",
}
# what people call them
ALIASES = {
    "keystone": "identity",
    "neutron": "network",
    "nova-api": "compute",
    "glance": "image",
    "nova": "compute",
    "cinder": "block-storage",
    "octavia": BALANCING,
}
STORES = ("mariadb", "epmd", "rabbitmq")


@dataclass(frozen=True)
class Service:
    name: str
    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Services:
    def __init__(self, config: Config, installation: Installation) -> None:
        self._config = config
        self._installation = installation

    def names(self) -> list[str]:
        """In the order of their start, with what was asked for besides."""
        return [*self.basic(), *([BALANCING] if self._config.settings.balancing else [])]

    def basic(self) -> list[str]:
        """Of every lab."""
        computes = [f"compute-{host['name']}" for host in self._config.topology["hosts"]]
        return [
            *STORES,
            "identity",
            "placement",
            "network",
            "conductor",
            "compute",
            "scheduler",
            *computes,
            "image",
            "block-storage",
            "volumes",
            *([MACHINES] if self._config.settings.machines else []),
        ]

    def get(self, name: str) -> Service:
        if name in APIS:
            port = str(self._config.settings.port(name))
            command = (str(CLOUD / "serve.py"), APIS[name], port)
            if name == BALANCING:
                return self._balancing(*command, *self.balancing_options())
            options = self._cinder_options() if name == "block-storage" else []
            return self._own(name, *command, *options)
        if name == "volumes":
            return self._own(name, str(CLOUD / "volumes.py"), *self._cinder_options())
        if name.startswith("compute-"):
            files = self.nova_options("nova.conf", f"{name}.conf")
            return self._own(name, str(CLOUD / "compute.py"), *files)
        if name in ("conductor", "scheduler"):
            program = self._installation.program(f"nova-{name}")
            return Service(name, [program, *self.nova_options()], self.environment())
        others = {"mariadb": self._mariadb, "epmd": self._epmd, "rabbitmq": self._rabbitmq}
        return {**others, MACHINES: self._machines}[name]()

    def environment(self) -> dict[str, str]:
        """Nothing of the caller's: neither its OpenStack settings nor its Python ones."""
        etc = self._config.etc
        return {
            "PATH": f"{self._installation.venv}/bin:{SEARCH}",
            "PYTHONPATH": f"{self._config.state_dir / 'site'}:{CLOUD}",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": str(self._config.state_dir / "cache"),
            "LC_ALL": "C.UTF-8",
            "OS_KEYSTONE_CONFIG_DIR": str(etc / "keystone"),
            "OS_PLACEMENT_CONFIG_DIR": str(etc / "placement"),
            "OS_GLANCE_CONFIG_DIR": str(etc / "glance"),
            "OS_NOVA_CONFIG_DIR": str(etc / "nova"),
            # the first is what the API loads its pipeline from
            "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf;nova-db.conf;nova-limit.conf",
            "OS_NEUTRON_CONFIG_DIR": str(etc / "neutron"),
            "OS_NEUTRON_CONFIG_FILES": "neutron.conf",
            "GPUAAS_LAB_TOPOLOGY": str(etc / "topology.json"),
            "GPUAAS_LAB_GUESTS": str(self._config.data / "nova"),
            **({"GPUAAS_LAB_MACHINES": str(self._config.machines)} if self._config.settings.machines else {}),
        }

    def nova_options(self, *files: str) -> list[str]:
        names = files or ("nova.conf", "nova-db.conf", "nova-limit.conf")
        return [word for name in names for word in ("--config-file", str(self._config.etc / "nova" / name))]

    def balancing_options(self) -> list[str]:
        return ["--config-file", str(self._config.etc / "octavia" / "octavia.conf")]

    def balancing_environment(self) -> dict[str, str]:
        """With what is installed for it alone."""
        found = self.environment()
        return {**found, "PYTHONPATH": f"{found['PYTHONPATH']}:{self._installation.balancing}"}

    def _balancing(self, *words: str) -> Service:
        return Service(BALANCING, [self._installation.python, *words], self.balancing_environment())

    def _cinder_options(self) -> list[str]:
        return ["--config-file", str(self._config.etc / "cinder" / "cinder.conf")]

    def _own(self, name: str, *words: str) -> Service:
        return Service(name, [self._installation.python, *words], self.environment())

    def _machines(self) -> Service:
        """By this very Python: it is ours, and boots what `lab_virt.py` writes down."""
        command = [sys.executable, "-m", "deploy.lab.guest", "keep", str(self._config.machines)]
        home = str(Path(deploy.__file__).parents[1])
        environment = {"PATH": SEARCH, "PYTHONPATH": home, "XDG_CACHE_HOME": str(CACHE)}
        return Service(MACHINES, command, environment)

    def _mariadb(self) -> Service:
        program = self._installation.program("mariadbd")
        return Service(
            "mariadb", [program, f"--defaults-file={self._config.etc / 'my.cnf'}"], self.environment()
        )

    def _epmd(self) -> Service:
        """RabbitMQ would start it by itself, as a daemon that outlives it."""
        port = str(self._config.settings.port("epmd"))
        command = [self._installation.program("epmd"), "-address", "127.0.0.1", "-port", port]
        return Service("epmd", command, self._erlang())

    def _rabbitmq(self) -> Service:
        home, settings = self._config.data / "rabbitmq", self._config.settings
        environment = {
            **self._erlang(),
            "RABBITMQ_NODENAME": "gpuaas@localhost",
            "RABBITMQ_DIST_PORT": str(settings.port("amqp_dist")),
            "RABBITMQ_CONFIG_FILE": str(self._config.etc / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._config.etc / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_PID_FILE": str(self._config.run / "rabbitmq.own-pid"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "ERL_CRASH_DUMP": str(home / "erl_crash.dump"),
            # on loopback only, and without schedulers that burn a core while they wait
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} "
            "+sbwt none +sbwtdcpu none +sbwtdio none",
        }
        return Service("rabbitmq", [self._installation.program("rabbitmq-server")], environment)

    def _erlang(self) -> dict[str, str]:
        return {
            **self.environment(),
            "HOME": str(self._config.data / "rabbitmq"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._config.settings.port("epmd")),
        }
