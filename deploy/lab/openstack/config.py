"""Configuration of all services, written from templates/."""

import getpass
import json
import secrets
import string
from pathlib import Path
from typing import Any

from deploy.lab.files import write_private
from deploy.lab.openstack.install import Installation
from deploy.lab.openstack.settings import HERE, PORTS, Settings, topology_load

# template → where it goes below etc/
FILES = {
    "my.cnf": "my.cnf",
    "init.sql": "init.sql",
    "rabbitmq.conf": "rabbitmq.conf",
    "keystone.conf": "keystone/keystone.conf",
    "placement.conf": "placement/placement.conf",
    "glance-api.conf": "glance/glance-api.conf",
    "neutron.conf": "neutron/neutron.conf",
    "cinder.conf": "cinder/cinder.conf",
    "octavia.conf": "octavia/octavia.conf",
    "nova.conf": "nova/nova.conf",
    "nova-db.conf": "nova/nova-db.conf",
}
FOLDERS = (
    "keystone/fernet",
    "keystone/credential",
    "glance/images",
    "glance/staging",
    "glance/tasks",
    "neutron",
    "nova",
    "cinder",
    "rabbitmq",
    "mysql-tmp",
)
SERVICE_USERS = {
    "nova": "compute",
    "neutron": "network",
    "glance": "image",
    "placement": "placement",
    "cinder": "block-storage",
    "octavia": "load-balancer",
}
PASSWORDS = ("db", "amqp", "admin", "service")


class Config:
    """The files of one lab. The passwords are made once and stay."""

    def __init__(self, state_dir: Path, settings: Settings, installation: Installation) -> None:
        self.settings = settings
        self.etc, self.data, self.run = state_dir / "etc", state_dir / "data", state_dir / "run"
        self.machines = self.data / "machines"  # those that boot, where it is asked for
        self.state_dir = state_dir
        self._installation = installation
        self.topology = topology_load(settings.topology_path)

    @property
    def clouds(self) -> Path:
        return self.state_dir / "clouds.yaml"

    @property
    def facts(self) -> Path:
        return self.etc / "facts.json"

    @property
    def limit_file(self) -> Path:
        return self.etc / "nova" / "nova-limit.conf"

    def passwords(self) -> dict[str, str]:
        path = self.state_dir / "secrets.json"
        known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        if not set(PASSWORDS) <= known.keys():
            known = {name: secrets.token_hex(16) for name in PASSWORDS} | known
            write_private(path, json.dumps(known))
        return known

    def write(self, *, begun: str, seconds: float) -> None:
        for folder in FOLDERS:
            (self.data / folder).mkdir(parents=True, exist_ok=True)
        (self.run / "lock").mkdir(parents=True, exist_ok=True)
        values = self._values()
        for template, target in FILES.items():
            self._fill(template, self.etc / target, values)
        pipeline = (self._installation.venv / "etc" / "nova" / "api-paste.ini").read_text()
        write_private(self.etc / "nova" / "api-paste.ini", pipeline)
        if not self.limit_file.exists():
            write_private(self.limit_file, "")
        write_private(self.etc / "enabled_plugins", "[].\n")
        write_private(self.etc / "topology.json", json.dumps(self.topology))
        for host in self.topology["hosts"]:
            (self.data / "nova" / host["name"]).mkdir(parents=True, exist_ok=True)
            own = {"host": host["name"], "device_specs": self._device_specs(host)}
            self._fill("nova-compute.conf", self.etc / "nova" / f"compute-{host['name']}.conf", values | own)
        self._write_clouds()
        self._write_facts(begun, seconds)
        self._write_entry_points()

    def _values(self) -> dict[str, Any]:
        settings, passwords = self.settings, self.passwords()
        values: dict[str, Any] = {f"port_{name}": settings.port(name) for name in PORTS}
        values |= {f"url_{name}": settings.url(name) for name in ("identity", "image")}
        values |= {f"pw_{name}": password for name, password in passwords.items()}
        values |= {
            # mariadbd runs as root only when it is told to
            "user": getpass.getuser(),
            "etc": self.etc,
            "run": self.run,
            "data": self.data,
            "venv": self._installation.venv,
            "debug": str(settings.debug).lower(),
            "limit_model": settings.limit_model,
            "database": f"mysql+pymysql://openstack:{passwords['db']}@127.0.0.1:{settings.port('mysql')}",
            "transport": f"rabbit://openstack:{passwords['amqp']}@127.0.0.1:{settings.port('amqp')}/",
            "pci_aliases": self._aliases(),
        }
        for user, kind in SERVICE_USERS.items():
            values[f"auth_{user}"] = self._auth(user)
            values[f"authtoken_{user}"] = (
                f"{self._auth(user)}\nwww_authenticate_uri = {settings.url('identity')}\nregion_name = RegionOne\n"
                f"service_type = {kind}\nservice_token_roles_required = true\ntoken_cache_time = 10"
            )
        return values

    def _auth(self, user: str) -> str:
        return (
            f"auth_url = {self.settings.url('identity')}\nauth_type = password\nusername = {user}\n"
            f"password = {self.passwords()['service']}\nproject_name = service\n"
            "user_domain_id = default\nproject_domain_id = default"
        )

    def _aliases(self) -> str:
        types = {"pci": "type-PCI", "vf": "type-VF"}
        return "\n".join(
            "alias = "
            + json.dumps(
                {
                    "name": name,
                    "vendor_id": model["vendor_id"],
                    "product_id": model["product_id"],
                    "device_type": types[model["kind"]],
                }
            )
            for name, model in sorted(self.topology["models"].items())
            if model["kind"] in types
        )

    def _device_specs(self, host: dict[str, Any]) -> str:
        models = [self.topology["models"][gpu["model"]] for gpu in host.get("gpus", [])]
        return "\n".join(
            "device_spec = " + json.dumps({key: model[key] for key in ("vendor_id", "product_id")})
            for model in models
            if model["kind"] != "vgpu"
        )

    def _write_clouds(self) -> None:
        auth = {
            "auth_url": self.settings.url("identity"),
            "username": "admin",
            "password": self.passwords()["admin"],
            "user_domain_id": "default",
        }
        scopes = {
            "lab": {"project_name": "admin", "project_domain_id": "default"},
            "lab-system": {"system_scope": "all"},
        }
        clouds = {
            name: {"region_name": "RegionOne", "identity_api_version": "3", "auth": auth | scope}
            for name, scope in scopes.items()
        }
        write_private(self.clouds, json.dumps({"clouds": clouds}, indent=1))  # JSON is YAML

    def _write_facts(self, begun: str, seconds: float) -> None:
        facts = {
            "urls": {name: self.settings.url(name) for name in PORTS if name not in ("mysql", "amqp")},
            "ports": {name: self.settings.port(name) for name in PORTS},
            "passwords": self.passwords(),
            "topology": self.topology,
            "limit_file": str(self.limit_file),
            "begun": begun,
            "seconds": seconds,
        }
        write_private(self.facts, json.dumps(facts))

    def _write_entry_points(self) -> None:
        """Neutron and Octavia find drivers by entry points: so a few files that look like an installed package."""
        package = self.state_dir / "site" / "gpuaas_lab-1.dist-info"
        write_private(package / "METADATA", "Metadata-Version: 2.1\nName: gpuaas-lab\nVersion: 1\n")
        write_private(
            package / "entry_points.txt",
            "[neutron.ml2.mechanism_drivers]\ngpuaas_lab = lab_ml2:LabMechanismDriver\n"
            "[octavia.api.drivers]\ngpuaas_lab = lab_octavia:LabProvider\n",
        )

    def _fill(self, template: str, target: Path, values: dict[str, Any]) -> None:
        text = (HERE / "templates" / template).read_text()
        write_private(target, string.Template(text).substitute(values))
