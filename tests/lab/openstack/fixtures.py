"""Real clouds for the test processes of this machine; each test makes projects of its own in the one its process holds.

Spoken to by plain HTTP, so that what is shown is the cloud's and not a library's. GPUAAS_LAB_SUFFIX keeps two runs apart.
"""

import fcntl
import itertools
import os
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.openstack import Lab
from tests.lab.fixtures import until

STATE_DIR = CACHE / f"gpuaas-openstack-tests{os.environ.get('GPUAAS_LAB_SUFFIX', '')}"
CALL_SECONDS = 120
MICROVERSIONS = {"OpenStack-API-Version": "placement 1.39, compute 2.96"}


@dataclass(frozen=True)
class Project:
    """With a member of its own."""

    id: str
    user_id: str
    password: str
    token: str


# of the cloud itself, made when it balances loads for the first time
OWN = {("users", "octavia")}


class Cloud:
    """Admin of the lab. Whatever is made by it is taken away at the end of the test."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        clouds = yaml.safe_load(lab.clouds.read_text())["clouds"]
        self._auth = clouds["lab"]["auth"]
        self._undo: list[tuple[str, str, str]] = []
        self._projects: list[Project] = []
        self.token, self._catalog = self._sign_in(
            self._auth, {"project": {"name": "admin", "domain": {"id": "default"}}}
        )
        self.system_token, _ = self._sign_in(self._auth, {"system": {"all": True}})

    def url(self, kind: str) -> str:
        return self._catalog[kind]

    def call(
        self, method: str, kind: str, path: str, *, token: str = "", **options: Any
    ) -> requests.Response:
        headers = {"X-Auth-Token": token or self.token, **MICROVERSIONS}
        if kind == "placement":
            headers["OpenStack-API-Version"] = "placement 1.39"
        if kind == "block-storage":
            headers["OpenStack-API-Version"] = "volume 3.0"
        if kind == "compute":
            headers["OpenStack-API-Version"] = "compute 2.96"
        return requests.request(
            method, self.url(kind) + path, headers=headers, timeout=CALL_SECONDS, **options
        )

    def made(self, kind: str, path: str, key: str, body: Any, *, token: str = "") -> Any:
        answer = self.call("POST", kind, path, token=token, json={key: body})
        answer.raise_for_status()
        found = answer.json()[key]
        self._undo.append((kind, f"{path}/{found['id']}", token))
        return found

    def clean_up(self) -> None:
        for project in self._projects:
            query = f"/servers?all_tenants=1&project_id={project.id}"  # whoever has taken its member out meanwhile
            for server in self.call("GET", "compute", query).json()["servers"]:
                self.call("DELETE", "compute", f"/servers/{server['id']}")
        for kind, path, token in reversed(self._undo):
            self.call("DELETE", kind, path, token=token)

    def project(self) -> Project:
        name, password = f"t-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
        project = self.made("identity", "/projects", "project", {"name": name, "domain_id": "default"})
        user = self.made(
            "identity", "/users", "user", {"name": name, "domain_id": "default", "password": password}
        )
        roles = {role["name"]: role["id"] for role in self.call("GET", "identity", "/roles").json()["roles"]}
        path = f"/projects/{project['id']}/users/{user['id']}/roles/{roles['member']}"
        self.call("PUT", "identity", path).raise_for_status()
        auth = {
            "auth_url": self._auth["auth_url"],
            "username": name,
            "password": password,
            "user_domain_id": "default",
        }
        token, _ = self._sign_in(auth, {"project": {"id": project["id"]}})
        self._projects.append(Project(project["id"], user["id"], password, token))
        return self._projects[-1]

    def gpu_flavor(self, alias: str, count: int) -> str:
        body = {
            "name": f"f-{uuid.uuid4().hex[:8]}",
            "vcpus": 4,
            "ram": 4096,
            "disk": 1,
            "os-flavor-access:is_public": False,
        }
        flavor = self.made("compute", "/flavors", "flavor", body)
        specs = {"extra_specs": {"pci_passthrough:alias": f"{alias}:{count}"}}
        self.call("POST", "compute", f"/flavors/{flavor['id']}/os-extra_specs", json=specs).raise_for_status()
        return str(flavor["id"])

    def clear(self) -> None:
        """What killed runs have left: machines hold GPUs, and of hundreds of flavors each list takes a second."""
        servers = self.call("GET", "compute", "/servers?all_tenants=1").json()["servers"]
        for row in servers:
            self.call("DELETE", "compute", f"/servers/{row['id']}")
        for row in self.call("GET", "compute", "/flavors?is_public=None&limit=1000").json()["flavors"]:
            if row["name"].startswith(("gpuaas-", "f-")):
                self.call("DELETE", "compute", f"/flavors/{row['id']}")
        until(lambda: not self._left(servers), "machines of earlier runs are gone")

    def _left(self, servers: list[dict[str, Any]]) -> list[str]:
        found = self.call("GET", "compute", "/servers?all_tenants=1").json()["servers"]
        return [row["id"] for row in found if row["id"] in {each["id"] for each in servers}]

    def standing(self) -> set[str]:
        """`kind name id` of all that tests, and the portal for them, make in a cloud, whosever it is."""
        lists = (
            ("identity", "/projects", "projects"),
            ("identity", "/users", "users"),
            ("identity", "/limits", "limits"),
            ("compute", "/servers?all_tenants=1", "servers"),
            ("compute", "/flavors?is_public=None&limit=1000", "flavors"),
            ("image", "/v2/images?limit=1000", "images"),
            ("network", "/v2.0/networks", "networks"),
            ("network", "/v2.0/ports", "ports"),
            ("network", "/v2.0/routers", "routers"),
            ("network", "/v2.0/floatingips", "floatingips"),
            ("block-storage", "/volumes/detail?all_tenants=1", "volumes"),
        )
        return {
            f"{key} {row.get('name') or row.get('resource_name') or ''} {row['id']}"
            for kind, path, key in lists
            for row in self._all(kind, path, key)
            if (key, row.get("name")) not in OWN
        }

    def _all(self, kind: str, path: str, key: str) -> list[dict[str, Any]]:
        token = self.system_token if path == "/limits" else ""
        answer = self.call("GET", kind, path, token=token)
        answer.raise_for_status()
        rows: list[dict[str, Any]] = answer.json()[key]
        return rows

    def swept(self, before: set[str]) -> list[str]:
        """What the tests of a session have left. Flavors stay for the next workspace that buys them, but nobody may have them still,
        and those of the contracts for the next contract."""
        for row in self._all("compute", "/flavors?is_public=None&limit=1000", "flavors"):
            access = self.call("GET", "compute", f"/flavors/{row['id']}/os-flavor-access")
            is_unused = access.ok and not access.json()["flavor_access"]
            if is_unused or row["name"].startswith("contract-"):
                self.call("DELETE", "compute", f"/flavors/{row['id']}")
        until(lambda: not self._of_machines(before), "the machines that tests deleted last are gone")
        return sorted(self.standing() - before)

    def _of_machines(self, before: set[str]) -> set[str]:
        """They go by themselves, and their ports and volumes with them."""
        going = ("servers", "ports", "volumes")
        return {each for each in self.standing() - before if each.startswith(going)}

    def grant(self, flavor: str, project: Project) -> None:
        body = {"addTenantAccess": {"tenant": project.id}}
        self.call("POST", "compute", f"/flavors/{flavor}/action", json=body).raise_for_status()

    def limit(self, project: Project, name: str, amount: int) -> None:
        rows = self.call("GET", "identity", "/registered_limits", token=self.system_token).json()
        row = next(each for each in rows["registered_limits"] if each["resource_name"] == name)
        body = {
            "service_id": row["service_id"],
            "region_id": row["region_id"],
            "resource_name": name,
            "resource_limit": amount,
            "project_id": project.id,
        }
        answer = self.call("POST", "identity", "/limits", token=self.system_token, json={"limits": [body]})
        answer.raise_for_status()

    def boot(self, project: Project, flavor: str) -> requests.Response:
        image = self.call("GET", "image", "/v2/images?name=tiny").json()["images"][0]["id"]
        body = {"name": "train", "flavorRef": flavor, "imageRef": image, "networks": "none"}
        return self.call("POST", "compute", "/servers", token=project.token, json={"server": body})

    def server_status(self, project: Project, server: str) -> str:
        found = self.call("GET", "compute", f"/servers/{server}", token=project.token)
        return str(found.json()["server"]["status"]) if found.ok else ""

    def usage_totals(self) -> Counter[str]:
        """Inventory of all resource providers, by resource class."""
        totals: Counter[str] = Counter()
        providers = self.call("GET", "placement", "/resource_providers").json()["resource_providers"]
        for provider in providers:
            answer = self.call(
                "GET", "placement", f"/resource_providers/{provider['uuid']}/inventories"
            ).json()
            for name, inventory in answer["inventories"].items():
                totals[name] += inventory["total"]
        return totals

    def _sign_in(self, auth: dict[str, str], scope: dict[str, Any]) -> tuple[str, dict[str, str]]:
        user = {
            "name": auth["username"],
            "domain": {"id": auth["user_domain_id"]},
            "password": auth["password"],
        }
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": scope}}
        answer = requests.post(f"{auth['auth_url']}/auth/tokens", json=body, timeout=CALL_SECONDS)
        answer.raise_for_status()
        catalog = {
            service["type"]: endpoint["url"].rstrip("/")
            for service in answer.json()["token"].get("catalog", [])
            for endpoint in service["endpoints"]
            if endpoint["interface"] == "public"
        }
        return answer.headers["X-Subject-Token"], catalog


def state_dirs() -> Iterator[Path]:
    """Where the clouds are that processes take turns with, the one that is started beforehand first."""
    yield STATE_DIR
    for number in itertools.count(2):
        yield STATE_DIR.with_name(f"{STATE_DIR.name}-{number}")


@contextmanager
def first_free() -> Iterator[Path]:
    """The first that no other process holds, held until the end; the lock goes with a process that dies."""
    for state_dir in state_dirs():
        state_dir.parent.mkdir(parents=True, exist_ok=True)
        with state_dir.with_suffix(".held").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield state_dir
            return


@pytest.fixture(scope="session")
def openstack_lab() -> Iterator[Lab]:
    """A cloud of this process's own, as a cloud has few GPUs: groups of tests run beside each other, each in another."""
    with first_free() as state_dir:
        lab = Lab(state_dir=state_dir)
        try:
            lab.up()  # one that runs already is taken as it is
        except LabError as error:
            pytest.fail(str(error), pytrace=False)
        cloud = Cloud(lab)
        cloud.clear()
        before = cloud.standing()
        yield lab
        left = Cloud(lab).swept(before)
        assert not left, f"each test takes away what it made, and a release everything: {', '.join(left)}"


@pytest.fixture(scope="session")
def own_openstack_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One whose services a test may stop and start without harm to others."""
    lab = Lab(state_dir=tmp_path_factory.mktemp("own-openstack"))
    try:
        lab.up()
        yield lab
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        lab.down(purge=True)


@pytest.fixture
def cloud(openstack_lab: Lab) -> Iterator[Cloud]:
    made = Cloud(openstack_lab)
    yield made
    made.clean_up()
