"""A workspace on the real cloud that the database knows as alice's, its tenant, and what Nova itself says of a machine."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections

from gpuaas.catalog.models import Site
from gpuaas.core.crypto import encrypt_json
from gpuaas.metering.meter import SiteMeterRunner
from gpuaas.metering.models import SiteMeter
from gpuaas.providers.base import FlavorAmount, GpuAmount, WorkspaceSpec
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.workspaces.models import Workspace, WorkspaceFlavor
from tenants.models import Project, User
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.lab.fixtures import until
from tests.metering.stage import utc
from tests.providers.openstack.conftest import ALICE, ref, spec_of

A100 = "CUSTOM_PCI_10DE_20B0"
ALIAS = {"pci_passthrough:alias": "a100"}
SLOW = 90.0  # seconds; Nova on a machine that does much else


def two_sizes() -> WorkspaceSpec:
    """Two A100s, as machines of one or of two, and room for three machines."""
    made = spec_of()
    one = replace(made.flavors[0], resource_name=A100, selector=ALIAS, count=2)
    two = FlavorAmount(
        slug=one.slug.replace("h100.1", "h100.2"),
        count=1,
        gpus=2,
        vcpus=4,
        memory_gib=8,
        disk_gib=1,
        resource_name=A100,
        selector=ALIAS,
    )
    return replace(made, gpus=(GpuAmount(A100, 2, ALIAS),), vcpus=64, memory_gib=128, flavors=(one, two))


def stage(driver: OpenStackDriver, spec: WorkspaceSpec, project: Project, alice: User) -> Workspace:
    site: Site = SiteFactory.create(
        driver="openstack",
        credentials=encrypt_json(dict(driver.connection.credentials)),
        options={**driver.connection.options, "aliases": {A100: "a100"}},
    )
    pool = GpuPoolFactory.create(site=site, resource_name=A100, selector=dict(ALIAS))
    workspace: Workspace = Workspace.objects.create(
        id=spec.id,
        project=project,
        site=site,
        name=spec.external_name.rpartition("-")[2],
        state="ready",
        lease_ends_at=utc("2030-01-01"),
        created_by=alice,
        created_at=utc("2026-01-01"),
    )
    WorkspaceFlavor.objects.create(
        workspace=workspace, flavor=FlavorFactory.create(pool=pool, gpus=1), count=2, confirmed=2
    )
    assert workspace.external_name == spec.external_name
    return workspace


@dataclass
class Tenant:
    """Alice with her own credential, behind the portal's back; and the cloud's admin to look."""

    driver: OpenStackDriver
    spec: WorkspaceSpec
    admin: Cloud
    alice: Cloud = field(init=False)

    def __post_init__(self) -> None:
        access = self.driver.issue_access(ref(self.spec), ALICE, lifetime=timedelta(hours=1))
        self.alice = Cloud({"clouds_yaml": access.document})
        rows = self.alice.items("compute", "/flavors/detail", "flavors")
        self.flavors = {row["extra_specs"]["pci_passthrough:alias"]: row["id"] for row in rows}
        self.image = self.alice.items("image", "/images", "images", name="tiny")[0]["id"]

    def boot(self, name: str, *, gpus: int = 1, **more: Any) -> str:
        body = {
            "name": name,
            "flavorRef": self.flavors[f"a100:{gpus}"],
            "imageRef": self.image,
            "networks": "none",
            **more,
        }
        return str(self.alice.post("compute", "/servers", {"server": body})["server"]["id"])

    def act(self, machine: str, verb: str, **body: Any) -> None:
        self.alice.post("compute", f"/servers/{machine}/action", {verb: body or None})

    def machine(self, machine: str) -> Object:
        found = self.admin.find("compute", f"/servers/{machine}")
        return (found or {}).get("server") or {"status": "DELETED"}

    def to(self, machine: str, *states: str) -> None:
        """Until it is there and nothing is under way."""

        def arrived() -> bool:
            seen = self.machine(machine)
            assert seen["status"] in states or seen["status"] != "ERROR", seen.get("fault")
            return seen["status"] in states and not seen.get("OS-EXT-STS:task_state")

        until(arrived, f"{machine} is {' or '.join(states)}", seconds=SLOW)

    def run(self, machine: str, verb: str, state: str, **body: Any) -> None:
        self.act(machine, verb, **body)
        self.to(machine, state)

    def written(self, machine: str, action: str) -> None:
        """Nova has written down when it ended; the machine says so a little earlier."""
        until(
            lambda: any(key[0] == action for key in self.moments(machine)), f"{action} is over", seconds=SLOW
        )

    def held(self, project_id: str) -> int:
        usages = self.admin.get("placement", "/usages", project_id=project_id)["usages"]
        return sum(part.get(A100, 0) for part in usages.values())

    @property
    def project_id(self) -> str:
        rows = self.admin.items("identity", "/projects", "projects", name=self.spec.external_name)
        return str(rows[0]["id"])

    def limit(self, gpus: int) -> None:
        """As the cloud's administrator would, behind the portal's back."""
        rows = self.admin.items("identity", "/limits", "limits", project_id=self.project_id)
        (row,) = [row for row in rows if row["resource_name"] == names.limit_name(A100)]
        self.admin.patch("identity", f"/limits/{row['id']}", {"limit": {"resource_limit": gpus}})

    def moments(self, machine: str) -> dict[tuple[str, str], tuple[datetime, datetime]]:
        """Start and finish of the first of each (action, event), read from os-instance-actions."""
        found: dict[tuple[str, str], tuple[datetime, datetime]] = {}
        for event in self._events(machine):
            if event["finish_time"]:
                key = (event["action"], event["event"])
                found.setdefault(key, (_utc(event["start_time"]), _utc(event["finish_time"])))
        return found

    def _events(self, machine: str) -> list[Object]:
        """Oldest action first."""
        path = f"/servers/{machine}/os-instance-actions"
        found = []
        for row in reversed(self.admin.get("compute", path)["instanceActions"]):
            events = self.admin.get("compute", f"{path}/{row['request_id']}")["instanceAction"]["events"]
            found += [{**event, "action": row["action"]} for event in events]
        return found


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@contextmanager
def meter_running(site: Site, holder: str = "test") -> Iterator[None]:
    """The meter with its warden, from its first proof of life of now on."""
    stop = threading.Event()

    def run() -> None:
        try:
            SiteMeterRunner(site, stop=stop, holder=holder).run()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        until(
            lambda: SiteMeter.objects.filter(site=site, last_proof_at__isnull=False, holder=holder).exists(),
            "the meter runs",
            seconds=SLOW,
        )
        yield
    finally:
        stop.set()
        thread.join(timeout=60)
