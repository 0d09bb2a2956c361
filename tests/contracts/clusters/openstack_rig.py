"""A real cloud with make-believe GPUs and without guests: what a machine would do is done by whoever reads its user data as Nova has it."""

import base64
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from unittest.mock import patch

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from deploy.lab.openstack import Lab
from gpuaas.core.errors import NotFound, Unauthorized, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import (
    Access,
    Boots,
    Change,
    ClusterDriver,
    ClusterKind,
    ClusterRef,
    ClusterSpec,
    Connection,
    ControlPlane,
    FlavorAmount,
    NodePool,
    NodeReport,
    ObservedCluster,
    Stage,
    StepOutcome,
    boot_claim,
)
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters.driver import OpenStackClusterDriver
from gpuaas.providers.openstack.clusters.keys import ADMINS
from gpuaas.providers.openstack.projects import DOMAIN
from tests.contracts.clusters import mesh
from tests.contracts.clusters.mesh import files_of
from tests.contracts.clusters.rigs import ClusterRig, carry_out
from tests.contracts.rigs.openstack import A100, ALIAS, H100, connection
from tests.lab.fixtures import until

WHOLE = (Stage.BOOTED, Stage.PACKAGES, Stage.GPU_DRIVER, Stage.JOINED, Stage.READY)
HEADER = "/etc/gpuaas/report.header"


def bearer(server: Object) -> str:
    """The token that its next report is made with: what the portal wrote into its metadata last, or else in its user data."""
    later: str = server["metadata"].get("gpuaas-token") or ""
    return later or files_of(server)[HEADER].removeprefix("Authorization: Bearer ").strip()


class Guests:
    """Every machine of some clusters that Nova has ACTIVE goes through its stages at once; `sick` says which does not."""

    def __init__(self, admin: Cloud, post: Callable[[str, Stage, str], None]) -> None:
        self.admin, self.post = admin, post
        self.sick: dict[str, tuple[Stage, ...]] = {}
        self.message = ""
        self._done: set[str] = set()

    def live(self, project_id: str) -> None:
        rows = self.admin.items(
            "compute", "/servers/detail", "servers", all_tenants="1", project_id=project_id, status="ACTIVE"
        )
        for server in rows:
            boot = server["metadata"].get("gpuaas-boot", "")
            if boot and boot not in self._done:
                self._done.add(boot)
                for stage in self.sick.get(server["name"], WHOLE):
                    self.post(bearer(server), stage, self.message if stage is Stage.FAILED else "")


class Desk:
    """The portal's part, as far as the driver needs it: a report counts if its token is sealed."""

    def __init__(self, seed: str) -> None:
        self.told: dict[str, NodeReport] = {}
        self.boots = Boots("https://portal.example/api/v1/node-reports", seed, self.told)

    def report(self, token: str, stage: Stage, message: str) -> None:
        claim = boot_claim(token)
        assert claim is not None
        assert claim.is_sealed(self.boots.seed)
        assert claim.is_timely(datetime.now(UTC))
        before = self.told.get(claim.boot)
        self.told[claim.boot] = NodeReport(stage, message, before.stage if before else "")


class Lived(OpenStackClusterDriver):
    """Between the portal's calls time passes at the site."""

    def __init__(self, connection: Connection, rig: "OpenStackClusterRig") -> None:
        super().__init__(connection)
        self.rig = rig

    def observe(self, ref: ClusterRef) -> ObservedCluster:
        self.rig.live(ref)
        return super().observe(ref)

    def _make(self, spec: ClusterSpec, step: str) -> StepOutcome:
        self.rig.live(spec.ref)
        with self.rig.losing():
            return super()._make(spec, step)


class OpenStackClusterRig(ClusterRig):
    old, new = "1.35.6", "1.36.3"
    is_told = True

    def __init__(self, lab: Lab) -> None:
        self._lab, self.connection = lab, connection(lab)
        super().__init__(Lived(self.connection, self))
        self.admin = Cloud(self.connection.credentials)
        self.desk = Desk(uuid.uuid4().hex)
        self.guests = Guests(self.admin, self.desk.report)
        self._specs: list[ClusterSpec] = []
        self._foreign: list[str] = []
        self._lossy = False
        self._domains: dict[str, Lived] = {}

    def spec(self, *, workers: int = 2, kind: ClusterKind = ClusterKind.KUBERNETES) -> ClusterSpec:
        made = uuid.uuid4()
        spec = ClusterSpec(
            id=made,
            external_name=f"c-{short(made)}-train",
            project_slug="weather-lm",
            organization_slug="climate",
            kind=kind,
            release=self.old,
            control_plane=ControlPlane(1, 1, 1, 1),
            pools=(self._pool("gpu", A100, workers), self._pool("other", H100, 1)),
            addons=("gpu-operator",),
            settings={"image": "tiny"},
            boots=self.desk.boots,
        )
        self._specs.append(spec)
        return spec

    def _pool(self, name: str, resource: str, count: int) -> NodePool:
        alias = {A100: "a100", H100: "h100"}[resource]
        amount = FlavorAmount(f"cluster-{alias}-2", count, 2, 1, 1, 1, resource, {ALIAS: alias})
        return NodePool(name, amount, self.old)

    def unreachable(self) -> ClusterDriver:
        clouds = yaml.safe_load(self._lab.clouds.read_text())
        clouds["clouds"]["lab"]["auth"]["auth_url"] = "http://127.0.0.1:9/v3"
        nowhere = {"clouds_yaml": yaml.safe_dump(clouds), "cloud": "lab"}
        return OpenStackClusterDriver(replace(self.connection, credentials=nowhere))

    def answer_lost(self, change: Change, step: str) -> None:
        del change, step
        self._lossy = True

    @contextmanager
    def losing(self) -> Iterator[None]:
        """The first write comes through and its answer is lost; where nothing is written, the last answer is."""
        if not self._lossy:
            yield
            return
        self._lossy = False
        call = Cloud._call

        def lost(cloud: Cloud, method: str, service: str, path: str, **options: Any) -> Object:
            answer = call(cloud, method, service, path, **options)
            if method != "GET":
                raise Unavailable("the answer was lost", retry_after=1)
            return answer

        with patch.object(Cloud, "_call", lost):
            yield
        raise Unavailable("the answer was lost", retry_after=1)

    def live(self, ref: ClusterRef) -> None:
        for row in self.admin.items("identity", "/projects", "projects", name=ref.external_name):
            self.guests.live(row["id"])

    def project(self, ref: ClusterRef, domain: str = DOMAIN) -> Object | None:
        rows = self.admin.items("identity", "/projects", "projects", name=ref.external_name, domain_id=domain)
        return rows[0] if rows else None

    def elsewhere(self) -> ClusterDriver:
        """Another domain of the same cloud: a site as good as any but for its hosts and its network outside, which are the same."""
        body = {"name": f"elsewhere-{uuid.uuid4().hex[:8]}"}
        domain = self.admin.post("identity", "/domains", {"domain": body})["domain"]["id"]
        options = {**self.connection.options, "domain": domain}
        there = replace(self.connection, site_id=uuid.uuid4(), site_slug="cloud-2", options=options)
        self._domains[domain] = Lived(there, self)
        return self._domains[domain]

    def one_net(self, home: ClusterSpec, there: ClusterDriver, far: ClusterSpec) -> None:
        mesh.holds(self.admin, home, DOMAIN)
        mesh.holds(self.admin, far, there.connection.options["domain"])

    def server(self, spec: ClusterSpec, name: str) -> Object:
        project = self.project(spec.ref)
        assert project is not None
        rows = self.admin.items(
            "compute", "/servers/detail", "servers", all_tenants="1", project_id=project["id"]
        )
        return next(row for row in rows if row["name"] == name)

    def node_break(self, name: str) -> None:
        spec = next(one for one in self._specs if name.startswith(one.external_name))
        path = f"/servers/{self.server(spec, name)['id']}/action"
        self.admin.post("compute", path, {"os-resetState": {"state": "error"}})

    def foreign(self, spec: ClusterSpec) -> None:
        body = {"name": spec.external_name, "domain_id": "default"}
        self.admin.post("identity", "/projects", {"project": body})
        self._foreign.append(spec.external_name)

    def too_many(self) -> int:
        return 6  # of 2 GPUs each, where 10 are

    def gpus_held(self, spec: ClusterSpec) -> int:
        project = self.project(spec.ref)
        if project is None:
            return 0
        usages = self.admin.get("placement", "/usages", project_id=project["id"])["usages"]
        return sum(
            amount for part in usages.values() for name, amount in part.items() if name in {A100, H100}
        )

    def who(self, spec: ClusterSpec, access: Access) -> str:
        """The head itself would say: its address has to lead to it, and the CA in its user data to have signed the certificate."""
        config = yaml.safe_load(access.document)
        user = config["users"][0]["user"]
        host = config["clusters"][0]["cluster"]["server"].removeprefix("https://").partition(":")[0]
        project = self.project(spec.ref)
        rows = self.admin.items("network", "/floatingips", "floatingips", floating_ip_address=host)
        if project is None or not any(row["port_id"] and row["project_id"] == project["id"] for row in rows):
            raise Unauthorized("nothing is at this address")
        trusted = files_of(self.server(spec, f"{spec.external_name}-control-1"))
        authority = x509.load_pem_x509_certificate(
            trusted["/var/lib/rancher/k3s/server/tls/client-ca.crt"].encode()
        )
        shown = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
        try:
            shown.verify_directly_issued_by(authority)
        except (ValueError, InvalidSignature) as error:
            raise Unauthorized("the certificate is somebody else's") from error
        group, name = (shown.subject.get_attributes_for_oid(oid)[0].value for oid in _SUBJECT)
        assert group == ADMINS
        return str(name)

    def close(self) -> None:
        for spec in self._specs:
            for driver in (*self._domains.values(), self.driver):
                if spec.external_name not in self._foreign:
                    until(partial(self._gone, spec, driver), f"{spec.external_name} is gone")
        for name in self._foreign:
            for row in self.admin.items("identity", "/projects", "projects", name=name):
                self.admin.delete("identity", f"/projects/{row['id']}")
        for domain in self._domains:
            self.admin.patch("identity", f"/domains/{domain}", {"domain": {"enabled": False}})
            self.admin.delete("identity", f"/domains/{domain}")
        self.admin.close()

    def _gone(self, spec: ClusterSpec, driver: ClusterDriver) -> bool:
        try:
            carry_out(driver, Change.DELETE, spec)
        except (NotFound, Unavailable):
            return False
        return not driver.inventory(spec.ref)


_SUBJECT = (x509.NameOID.ORGANIZATION_NAME, x509.NameOID.COMMON_NAME)
