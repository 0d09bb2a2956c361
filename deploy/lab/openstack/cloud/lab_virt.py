"""A hypervisor with make-believe GPUs; all of Nova above it is real.

Beyond Nova's own fake driver: size and GPUs come from the topology; node ids and guests survive a restart, as a
hypervisor's do; and a server's metadata makes things go wrong:

  gpuaas_lab_spawn = "fail"     the spawn fails: Nova tries another host, then ERROR
  gpuaas_lab_spawn = "abort"    ERROR at once
  gpuaas_lab_spawn = "slow:N"   the spawn takes N seconds longer

Where GPUAAS_LAB_MACHINES names a folder, servers with user data are written there, and `deploy/lab/guest` boots them.
"""

import json
import os
import threading
import time
from pathlib import Path

from nova import exception
from nova.compute import power_state
from nova.virt import fake, node
from oslo_serialization import jsonutils


def pci_devices(topology, host):
    """What the hypervisor reports, in the words of libvirt's driver; virtual functions after their physical one."""
    devices = []
    models = topology["models"]
    cards = [models[gpu["model"]] for gpu in host.get("gpus", []) for _ in range(gpu["count"])]
    for number, model in enumerate(card for card in cards if card["kind"] != "vgpu"):
        bus = f"{0x10 + number:02x}"
        is_parent = model["kind"] == "vf"
        card = {
            "address": f"0000:{bus}:00.0",
            "vendor_id": model["vendor_id"],
            "product_id": model["pf_product_id"] if is_parent else model["product_id"],
            "status": "available",
            "dev_type": "type-PF" if is_parent else "type-PCI",
            "parent_addr": None,
            "numa_node": None,
            "label": f"label_{model['vendor_id']}_{model['product_id']}",
        }
        devices.append(card)
        for function in range(1, model["functions"] + 1 if is_parent else 1):
            slot, place = divmod(function, 8)
            devices.append(
                {
                    **card,
                    "address": f"0000:{bus}:{slot:02x}.{place:x}",
                    "product_id": model["product_id"],
                    "dev_type": "type-VF",
                    "parent_addr": card["address"],
                }
            )
    return devices


class Machines:
    """Written as `deploy/lab/guest/wishes.py` reads it."""

    def __init__(self, folder):
        self._folder = Path(folder) / "wanted" if folder else None

    def write(self, instance, network_info):
        if self._folder is None or not instance.user_data or not network_info:
            return
        network = network_info[0]["network"]
        description = {
            "uuid": instance.uuid,
            "name": instance.hostname,
            "network": network["id"],
            "address": network["subnets"][0]["ips"][0]["address"],
            "user_data": instance.user_data,
            "gpus": len(instance.get_pci_devices()),
            "meta": dict(instance.metadata or {}),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        self._replace(instance.uuid, description)

    def remove(self, instance):
        if self._folder is not None:
            (self._folder / f"{instance.uuid}.json").unlink(missing_ok=True)

    def metadata(self, instance):
        path = self._folder and self._folder / f"{instance.uuid}.json"
        if path and path.exists():
            self._replace(
                instance.uuid, {**json.loads(path.read_text()), "meta": dict(instance.metadata or {})}
            )

    def console(self, instance):
        """What a machine that boots has last written to it; "" of the others."""
        path = self._folder and self._folder.parent / "machines" / instance.uuid / "written"
        return path.read_text(errors="replace") if path and path.exists() else ""

    def _replace(self, uuid, description):
        half = self._folder / f"{uuid}.new"
        half.write_text(json.dumps(description))
        half.replace(self._folder / f"{uuid}.json")


class LabDriver(fake.FakeDriver):
    def __init__(self, virtapi, read_only=False):
        super().__init__(virtapi, read_only=read_only)
        self._lock = threading.RLock()
        self._machines = Machines(os.environ.get("GPUAAS_LAB_MACHINES"))

    def init_host(self, host):
        super().init_host(host)
        self._topology = json.loads(Path(os.environ["GPUAAS_LAB_TOPOLOGY"]).read_text())
        self._spec = next(each for each in self._topology["hosts"] if each["name"] == host)
        self.vcpus = self._spec["vcpus"]
        self.memory_mb = self._spec["memory_mb"]
        self.local_gb = self._spec["disk_gb"]
        self.resources = fake.Resources(vcpus=self.vcpus, memory_mb=self.memory_mb, local_gb=self.local_gb)
        self._file = Path(os.environ["GPUAAS_LAB_GUESTS"]) / f"guests-{host}.json"
        for guest in json.loads(self._file.read_text()) if self._file.exists() else []:
            made = fake.FakeInstance(guest["name"], guest["state"], guest["uuid"])
            made.size = guest["size"]
            self.resources.claim(*made.size)
            self.instances[guest["uuid"]] = made

    def _save(self):
        with self._lock:
            guests = [
                {
                    "uuid": g.uuid,
                    "name": g.name,
                    "state": g.state,
                    "size": list(getattr(g, "size", (0, 0, 0))),
                }
                for g in list(self.instances.values())
            ]
            half = self._file.with_suffix(".new")
            half.write_text(json.dumps(guests))
            half.replace(self._file)

    # -- guests -----------------------------------------------------------------------------------------------------

    def spawn(self, context, instance, *args, **kwargs):
        behavior = (instance.metadata or {}).get("gpuaas_lab_spawn", "")
        if behavior.startswith("slow:"):
            time.sleep(min(float(behavior.removeprefix("slow:")), 600))
        if behavior == "fail":
            raise exception.NovaException("the spawn failed, as its metadata asks")
        if behavior == "abort":
            raise exception.BuildAbortException(instance_uuid=instance.uuid, reason="as its metadata asks")
        with self._lock:
            super().spawn(context, instance, *args, **kwargs)
            flavor = instance.flavor
            self.instances[instance.uuid].size = (flavor.vcpus, flavor.memory_mb, flavor.root_gb)
        self._save()
        self._machines.write(instance, kwargs.get("network_info"))

    def destroy(self, context, instance, network_info, *args, **kwargs):
        with self._lock:
            super().destroy(context, instance, network_info, *args, **kwargs)
        self._save()
        self._machines.remove(instance)

    def change_instance_metadata(self, context, instance, diff):
        self._machines.metadata(instance)

    def power_off(self, instance, timeout=0, retry_interval=0):
        super().power_off(instance, timeout, retry_interval)
        self._save()

    def power_on(self, context, instance, network_info, *args, **kwargs):
        super().power_on(context, instance, network_info, *args, **kwargs)
        self._save()

    def _become(self, instance, state):
        self.instances[instance.uuid].state = state
        self._save()

    def pause(self, instance):
        self._become(instance, power_state.PAUSED)

    def unpause(self, instance):
        self._become(instance, power_state.RUNNING)

    def suspend(self, context, instance):
        self._become(instance, power_state.SUSPENDED)

    def resume(self, context, instance, *args, **kwargs):
        self._become(instance, power_state.RUNNING)

    def get_console_output(self, context, instance):
        usual = f"[    0.000000] Linux version 6.12 (make-believe)\n{instance.hostname} login: "
        return self._machines.console(instance) or usual

    # -- the host ---------------------------------------------------------------------------------------------------

    def get_nodenames_by_uuid(self, refresh=False):
        return {node.get_local_node_uuid(): self._host}

    def get_available_resource(self, nodename):
        found = super().get_available_resource(nodename)
        if found:
            found["uuid"] = node.get_local_node_uuid()
            found["pci_passthrough_devices"] = jsonutils.dumps(pci_devices(self._topology, self._spec))
        return found

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Cards that are shared as vGPUs are child providers without a PCI device."""
        super().update_provider_tree(provider_tree, nodename, allocations=allocations)
        models = [
            self._topology["models"][g["model"]]
            for g in self._spec.get("gpus", [])
            for _ in range(g["count"])
        ]
        for number, model in enumerate(model for model in models if model["kind"] == "vgpu"):
            child = f"{nodename}_vgpu_{number}"
            if not provider_tree.exists(child):
                provider_tree.new_child(child, nodename)
            total = model["functions"]
            inventory = {"total": total, "max_unit": total, "min_unit": 1, "step_size": 1, "reserved": 0}
            provider_tree.update_inventory(child, {"VGPU": {**inventory, "allocation_ratio": 1.0}})
            provider_tree.add_traits(child, "OWNER_NOVA", *model.get("traits", []))
