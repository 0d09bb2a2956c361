"""Workspaces for those who try to get out, and a look at them with the administrator's eyes."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import requests

from deploy.lab.openstack import Lab
from gpuaas.providers.base import Connection, Member, WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.lab.fixtures import until
from tests.providers.openstack.conftest import provision, ref, take_away
from tests.providers.openstack.escapes.shapes import A100, ALICE, VF
from tests.providers.openstack.escapes.tenant import Body, Credential, credential

ALIASES = {A100: "a100", VF: "a16vf"}


@dataclass
class Room:
    """A workspace, and a member's credential in it."""

    driver: OpenStackDriver
    admin: Cloud
    spec: WorkspaceSpec
    who: Credential

    @property
    def flavors(self) -> dict[str, str]:
        """The number of its size → id."""
        rows = self.who.get("compute", "/flavors")["flavors"]
        return {row["name"].removeprefix("gpuaas-a").partition("-")[0]: row["id"] for row in rows}

    def own(self, service: str, path: str, key: str) -> list[Body]:
        """Of its project only."""
        rows = self.who.get(service, path)[key]
        return [row for row in rows if row.get("project_id") == self.who.project]

    @property
    def network(self) -> str:
        rows = self.own("network", "/networks", "networks")
        return str(next(row["id"] for row in rows if row["name"] == "workspace"))

    @property
    def image(self) -> str:
        return str(self.who.get("image", "/images?name=tiny")["images"][0]["id"])

    def held(self, kind: str = A100) -> int:
        return self.driver.observe(ref(self.spec)).used[kind]

    def bought(self, kind: str = A100) -> int:
        return self.driver.observe(ref(self.spec)).hard[kind]

    def ask(self, flavor: str = "", **more: object) -> requests.Response:
        """For a machine; the first size where none is named."""
        made = {
            "name": "mine",
            "flavorRef": flavor or self.flavors["0"],
            "imageRef": self.image,
            "networks": "none",
        }
        return self.who.call("POST", "compute", "/servers", {"server": {**made, **more}})

    def boot(self, flavor: str = "", **more: object) -> str:
        """A machine that runs."""
        answer = self.ask(flavor, **more)
        assert answer.status_code == 202, answer.text
        server = str(answer.json()["server"]["id"])
        self.becomes(server, "ACTIVE")
        return server

    def server(self, server: str) -> Body:
        found: Body = self.who.get("compute", f"/servers/{server}")["server"]
        return found

    def becomes(self, server: str, *states: str) -> None:
        def there() -> bool:
            seen = self.server(server)
            return seen["status"] in states and not seen["OS-EXT-STS:task_state"]

        until(there, f"the machine is {' or '.join(states)}", seconds=120)

    def act(self, server: str, name: str, body: object = None) -> requests.Response:
        return self.who.call("POST", "compute", f"/servers/{server}/action", {name: body})

    def servers(self) -> list[Body]:
        rows: list[Body] = self.who.get("compute", "/servers/detail")["servers"]
        return rows

    def settled(self) -> list[Body]:
        """All machines once none is being made."""

        def look() -> bool:
            return all(
                row["status"] != "BUILD" and not row["OS-EXT-STS:task_state"] for row in self.servers()
            )

        until(look, "every machine is made or not", seconds=120)
        return self.servers()

    def clear(self) -> None:
        """No machine, and nothing held."""
        for row in self.admin.items(
            "compute", "/servers", "servers", all_tenants="1", project_id=self.who.project
        ):
            self.admin.delete("compute", f"/servers/{row['id']}")
        until(lambda: not self.servers(), "the machines are gone", seconds=120)
        until(
            lambda: not any(self.driver.observe(ref(self.spec)).used.values()), "nothing is held", seconds=60
        )

    def surplus_is_seen(self, kind: str) -> None:
        """By the driver."""

        def over() -> bool:
            seen = self.driver.observe(ref(self.spec))
            return seen.used[kind] > seen.hard[kind]

        until(over, f"a surplus of {kind} is seen")


def driver_of(lab: Lab) -> OpenStackDriver:
    return OpenStackDriver(
        Connection(
            site_id=uuid.uuid4(),
            site_slug="cloud",
            endpoint="",
            credentials={"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"},
            options={"external_network": "public", "aliases": ALIASES},
        )
    )


@contextmanager
def room(driver: OpenStackDriver, spec: WorkspaceSpec, member: Member = ALICE) -> Iterator[Room]:
    """Made, and taken away whatever became of it."""
    try:
        provision(driver, spec)
        yield Room(driver, Cloud(driver.connection.credentials), spec, credential(driver, spec, member))
    finally:
        take_away(driver, spec)
