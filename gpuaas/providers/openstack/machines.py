"""Machines of a project: read with the site's account in a constant number of calls, created and changed as a member."""

import base64
import time
import uuid
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Permanent, QuotaRefused, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers import base
from gpuaas.providers.openstack import (
    duplicates,
    inside,
    names,
    placing,
    project_inventory,
    projects,
    servers,
)
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.machine import machine_of, order_of, over_limit, status_of

GIB = 1 << 30
GONE_SECONDS, AGAIN_SECONDS = 5.0, 0.2
CONSOLE_LIVES = timedelta(minutes=10)  # Nova's [consoleauth] token_ttl, by default

# default accounts of distributions' cloud images, by Glance's os_distro
USERS = {
    "almalinux": "almalinux",
    "arch": "arch",
    "cirros": "cirros",
    "debian": "debian",
    "fedora": "fedora",
    "opensuse": "opensuse",
    "rhel": "cloud-user",
    "rocky": "rocky",
    "ubuntu": "ubuntu",
}

# Nova's action, the status in which it is done, and prefixes of Nova's task states for it
ACTIONS: dict[base.MachineVerb, tuple[Object, base.MachineStatus | None, tuple[str, ...]]] = {
    base.MachineVerb.START: ({"os-start": None}, base.MachineStatus.RUNNING, ("powering-on",)),
    base.MachineVerb.STOP: ({"os-stop": None}, base.MachineStatus.STOPPED, ("powering-off",)),
    base.MachineVerb.RESTART: ({"reboot": {"type": "HARD"}}, None, ("reboot",)),
    base.MachineVerb.SHELVE: ({"shelve": None}, base.MachineStatus.SHELVED, ("shelving",)),
    base.MachineVerb.UNSHELVE: ({"unshelve": None}, base.MachineStatus.RUNNING, ("unshelving", "spawning")),
    base.MachineVerb.REBUILD: ({}, None, ("rebuild",)),
}


class OpenStackMachines(base.MachineCapability):
    """The machine verbs of the driver, which provides the cloud, its GPU classes and the domain."""

    @property
    @abstractmethod
    def _cloud(self) -> Cloud: ...

    @property
    @abstractmethod
    def _classes(self) -> Classes: ...

    @property
    @abstractmethod
    def _domain(self) -> str: ...

    def images(self, ref: base.WorkspaceRef) -> tuple[base.MachineImage, ...]:
        with closing(inside.enter(self._cloud, self._project(ref))) as own:
            rows = own.items("image", "/images", "images", status="active")
        found = [
            base.MachineImage(
                id=row["id"],
                name=row["name"] or row["id"],
                disk_gib=max(int(row.get("min_disk") or 0), -(-int(row.get("virtual_size") or 0) // GIB)),
                memory_gib=-(-int(row.get("min_ram") or 0) // 1024),
                user=_user(row),
            )
            for row in rows
            if row.get("status") == "active"
            and row.get("image_type") != "snapshot"
            and not row.get("os_hidden")
        ]
        return tuple(sorted(found, key=lambda image: (image.name, image.id)))

    def launch(self, ref: base.WorkspaceRef, order: base.MachineOrder) -> base.ObservedMachine:
        project = self._project(ref)
        marked = self._marked(project, order.id)
        lost = [row for row in marked if placing.is_lost(row)]
        if len(lost) == len(marked):
            self._clear(lost)
            with closing(inside.enter(self._cloud, project)) as own:
                self._create(own, project, order, lost)
        there = [
            row for row in self._marked(project, order.id) if row["id"] not in {each["id"] for each in lost}
        ]
        if not there:
            raise Unavailable(
                "the cloud has accepted the order but does not list the machine yet", retry_after=2
            )
        for other in there[1:]:  # duplicates after a lost answer
            self._cloud.delete("compute", f"/servers/{other['id']}")
        return machine_of(there[0], self._classes, {})

    def machines(self, ref: base.WorkspaceRef) -> tuple[base.ObservedMachine, ...]:
        project = self._project_if_ours(ref)
        if project is None:
            return ()
        rows = servers.of_project(self._cloud, project["id"])
        images = self._image_names(project) if rows else {}
        lost = {row["id"] for row in rows if order_of(row) and placing.is_lost(row)}
        lost = placing.with_room(self._cloud, [row for row in rows if row["id"] in lost], self._classes)
        return tuple(machine_of(row, self._classes, images, lost=row["id"] in lost) for row in rows)

    def act(
        self, ref: base.WorkspaceRef, uid: str, verb: base.MachineVerb, *, action: uuid.UUID, image: str = ""
    ) -> None:
        project = self._project(ref)
        server = self._server(project, uid)
        if verb is base.MachineVerb.DELETE:
            self._cloud.delete("compute", f"/servers/{uid}")
            return
        body, goal, tasks = ACTIONS[verb]
        task = str(server.get("OS-EXT-STS:task_state") or "")
        if task.startswith(tasks):
            return
        if task:
            raise Unavailable(f"the cloud is busy with it ({task})", retry_after=2)
        if goal is not None and status_of(server) is goal:
            return
        if verb is base.MachineVerb.REBUILD:
            if (server.get("metadata") or {}).get(names.ACTION) == str(action):
                return
            body = _rebuild(server, action, image)
        with closing(inside.enter(self._cloud, project)) as own, _quota_in_words():
            own.post("compute", f"/servers/{uid}/action", body)

    def console(self, ref: base.WorkspaceRef, uid: str) -> base.Console:
        project = self._project(ref)
        self._server(project, uid)
        body = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
        expires = clock.now() + CONSOLE_LIVES
        with closing(inside.enter(self._cloud, project)) as own:
            try:
                made = own.post("compute", f"/servers/{uid}/remote-consoles", body)
            except Permanent as error:
                raise base.NoScreens("the site has no consoles: use ssh") from error
        return base.Console(url=str(made["remote_console"]["url"]), expires_at=expires)

    def belongings(self, ref: base.WorkspaceRef) -> base.Belongings:
        return project_inventory.belongings(self._cloud, self._project_if_ours(ref))

    # -- within ------------------------------------------------------------------------------------------------------

    def _project(self, ref: base.WorkspaceRef) -> Object:
        project = projects.own_project(self._cloud, ref.external_name, ref.id, domain=self._domain)
        if project is None:
            raise NotFound(f"{ref.external_name} is not at the site")
        return project

    def _project_if_ours(self, ref: base.WorkspaceRef) -> Object | None:
        project = projects.project_find(self._cloud, ref.external_name, domain=self._domain)
        return project if project is not None and projects.is_ours(project, ref.id) else None

    def _server(self, project: Object, uid: str) -> Object:
        found = self._cloud.find("compute", f"/servers/{uid}")
        if found is None or found["server"]["tenant_id"] != project["id"]:
            raise NotFound("this machine no longer exists at the site")
        server: Object = found["server"]
        return server

    def _marked(self, project: Object, order: uuid.UUID) -> list[Object]:
        """Oldest first."""
        rows = [row for row in servers.of_project(self._cloud, project["id"]) if order_of(row) == order]
        return sorted(rows, key=lambda row: (row["created"], row["id"]))

    def _clear(self, lost: list[Object]) -> None:
        """Until they are gone, their project's limits count them. Without a host that is done at once."""
        for row in lost:
            self._cloud.delete("compute", f"/servers/{row['id']}")
        deadline = time.monotonic() + GONE_SECONDS
        while any(self._cloud.find("compute", f"/servers/{row['id']}") for row in lost):
            if time.monotonic() > deadline:
                raise Unavailable(
                    "the cloud is still deleting the machine that could not be placed", retry_after=2
                )
            time.sleep(AGAIN_SECONDS)

    def _image_names(self, project: Object) -> dict[str, str]:
        rows = self._cloud.items("image", "/images", "images", visibility="all")
        shown = [row for row in rows if row["visibility"] != "private" or row["owner"] == project["id"]]
        return {row["id"]: row["name"] or row["id"] for row in shown}

    def _create(self, own: Cloud, project: Object, order: base.MachineOrder, lost: list[Object]) -> None:
        """`lost`: what was created for the order before; of a cloud-init that an earlier release has forgotten they have a copy."""
        body: Object = {
            "name": order.name,
            "flavorRef": _flavor(own, order),
            "imageRef": order.image,
            "metadata": {names.MACHINE: str(order.id), **placing.next_try(lost)},
            **self._nets(project),
        }
        if order.cloud_init:
            body["user_data"] = base64.b64encode(order.cloud_init.encode()).decode()
        elif lost and (data := lost[-1].get("OS-EXT-SRV-ATTR:user_data")):
            body["user_data"] = data
        if order.volume_gib:
            body["block_device_mapping_v2"] = self._disks(order)
        with _key_lent(own, order, body), _quota_in_words():
            own.post("compute", "/servers", {"server": body})

    def _nets(self, project: Object) -> Object:
        """The workspace's own network and security group, unless the tenant deleted them."""
        query = {"project_id": project["id"], "name": names.NETWORK}
        nets = self._cloud.items("network", "/networks", "networks", **query)
        query = {"project_id": project["id"], "name": names.SECURITY_GROUP}
        groups = self._cloud.items("network", "/security-groups", "security_groups", **query)
        if not nets:
            return {"networks": "none"}
        found: Object = {"networks": [{"uuid": _ours(nets)}]}
        return {**found, "security_groups": [{"name": _ours(groups)}]} if groups else found

    def _disks(self, order: base.MachineOrder) -> list[Object]:
        if not self._cloud.has_volumes:
            raise Permanent("this site has no volumes: order the machine without one")
        root = {"uuid": order.image, "source_type": "image", "destination_type": "local", "boot_index": 0}
        extra = {
            "source_type": "blank",
            "destination_type": "volume",
            "volume_size": order.volume_gib,
            "boot_index": -1,
        }
        return [{**disk, "delete_on_termination": True} for disk in (root, extra)]


@contextmanager
def _key_lent(own: Cloud, order: base.MachineOrder, body: Object) -> Iterator[None]:
    """The portal's account has the key while the machine is made, which has its own copy; and no longer where that is refused: an
    account has 100 keys in all (https://docs.openstack.org/nova/latest/admin/quotas.html)."""
    if not order.public_key:
        yield
        return
    body["key_name"] = f"gpuaas-{short(order.id)}"
    _key_pair(own, body["key_name"], order.public_key)
    try:
        yield
    finally:
        own.delete("compute", f"/os-keypairs/{body['key_name']}")


def _user(image: Object) -> str:
    """The image's own account, or its distribution's default."""
    account = str(image.get("os_admin_user") or "")
    return account or USERS.get(str(image.get("os_distro") or "").lower(), "")


def _ours(rows: list[Object]) -> str:
    """Prefer ours: a tenant's own may have the same name."""
    return str(next(filter(duplicates.is_made, rows), rows[0])["id"])


def _flavor(own: Cloud, order: base.MachineOrder) -> str:
    wanted = names.FLAVOR.format(slug=order.flavor.slug)
    for row in own.items("compute", "/flavors/detail", "flavors"):
        if row["name"] == wanted:
            return str(row["id"])
    raise Permanent(f"the flavor {order.flavor.slug} is not granted to the workspace at the site")


def _key_pair(own: Cloud, name: str, public_key: str) -> None:
    if own.find("compute", f"/os-keypairs/{name}") is None:
        own.post(
            "compute", "/os-keypairs", {"keypair": {"name": name, "type": "ssh", "public_key": public_key}}
        )


def _rebuild(server: Object, action: uuid.UUID, image: str) -> Object:
    made_of = image or (server.get("image") or {}).get("id")
    if not made_of:
        raise Permanent("it was created from a volume: choose the image for the rebuild")
    marked = {**(server.get("metadata") or {}), names.ACTION: str(action)}
    return {"rebuild": {"imageRef": made_of, "metadata": marked}}


@contextmanager
def _quota_in_words() -> Iterator[None]:
    try:
        yield
    except QuotaRefused as error:
        over = over_limit(error.message)
        if over is None:
            raise
        raise QuotaRefused(over[0], detail=over[1]) from error
