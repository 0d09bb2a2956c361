"""A hub whose controllers are played: what Hive, the assisted service and Metal3 write, written at a real API server.

Nothing is installed: it stands for the order of events and the words of conditions. What the driver writes is taken or refused
by the API server.
"""

import threading
import time
import uuid
from contextlib import suppress
from typing import Any

from gpuaas.core.errors import GpuaasError
from gpuaas.providers.baremetal.hub import AGENT, KINDS
from gpuaas.providers.baremetal.plan import DEPLOYMENT, INFRA_ENV, INSTALL, MACHINE
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.names import CLUSTER

LABEL = "infraenvs.agent-install.openshift.io"


def conditions(*said: tuple[str, str, str], message: str = "") -> list[Object]:
    when = "2026-11-22T12:00:00Z"
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": when,
            "lastProbeTime": when,
        }
        for kind, status, reason in said
    ]


class PlayedHub:
    """Of one namespace. lost: machines whose agents are gone quiet; stuck: BMCs that clean nothing."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.lost: set[str] = set()
        self.stuck: set[str] = set()
        self.kubeconfig_secret = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hub {namespace}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(GpuaasError):  # what was read has changed or is gone: the next turn reads again
                self.turn()
            time.sleep(0.05)

    def turn(self) -> None:
        agents = self.items(AGENT)
        machines = self.items(MACHINE)
        for image in self.items(INFRA_ENV):
            self._image(image)
        for machine in machines:
            self._machine(machine, agents)
        known = {one["metadata"]["name"] for one in machines}
        for agent in agents:
            if agent["metadata"]["name"].removesuffix("-agent") not in known:
                self._delete(AGENT, agent)
        for install in self.items(INSTALL):
            self._install(install, agents)

    def items(self, kind: str) -> list[Object]:
        return self.api.items(KINDS[kind].within(self.namespace))

    def status(self, kind: str, found: Object, status: Object) -> None:
        if found.get("status") != {**(found.get("status") or {}), **status}:
            path = f"{KINDS[kind].within(self.namespace)}/{found['metadata']['name']}"
            self.api.merge(f"{path}/status", {"status": status})

    def _delete(self, kind: str, found: Object) -> None:
        self.api.delete(f"{KINDS[kind].within(self.namespace)}/{found['metadata']['name']}")

    def _image(self, image: Object) -> None:
        url = f"https://images.example.org/{image['metadata']['uid']}"
        status = {
            "isoDownloadURL": f"{url}/full.iso",
            "bootArtifacts": {
                "ipxeScript": f"{url}/ipxe-script",
                "kernel": f"{url}/kernel",
                "initrd": f"{url}/initrd",
                "rootfs": f"{url}/rootfs",
                "discoveryIgnitionURL": f"{url}/ignition",
            },
            "conditions": conditions(("ImageCreated", "True", "ImageCreated")),
        }
        if "bootArtifacts" not in (image.get("status") or {}):
            self.status(INFRA_ENV, image, status)

    def _machine(self, machine: Object, agents: list[Object]) -> None:
        """Booted from the image it shows up as an agent; without one it is cleaned, if that was asked for."""
        metadata, spec = machine["metadata"], machine["spec"]
        name, state = metadata["name"], _state(machine)
        if LABEL in (metadata.get("labels") or {}):
            if state != "provisioned":
                self._metal(machine, "provisioned", image="https://images.example.org/full.iso")
            elif f"{name}-agent" not in {one["metadata"]["name"] for one in agents}:
                self._agent(machine)
        elif name in self.stuck:
            self._metal(machine, "deprovisioning", image="old", error="the BMC does not answer")
        elif state == "provisioned":
            self._metal(machine, "deprovisioning", image="old")
        elif state == "deprovisioning" and spec.get("automatedCleaningMode") == "metadata":
            self._metal(machine, "available")

    def _metal(self, machine: Object, state: str, *, image: str = "", error: str = "") -> None:
        status: Object = {
            "errorCount": int(bool(error)),
            "errorMessage": error,
            "hardwareProfile": "",
            "operationalStatus": "error" if error else "OK",
            "poweredOn": bool(image),
            "provisioning": {"ID": "", "state": state, "image": {"url": image}},
        }
        self.status(MACHINE, machine, status)

    def _agent(self, machine: Object) -> None:
        name, label = machine["metadata"]["name"], machine["metadata"]["labels"][LABEL]
        image = self.api.get(f"{KINDS[INFRA_ENV].within(self.namespace)}/{label}")
        body = {
            "apiVersion": KINDS[AGENT].version,
            "kind": AGENT,
            "metadata": {
                "name": f"{name}-agent",
                "labels": {LABEL: label, **image["spec"]["agentLabels"]},
            },
            "spec": {"approved": False, "role": "auto-assign"},
        }
        made = self.api.create(KINDS[AGENT].within(self.namespace), body)
        port = {"name": "eno1", "macAddress": machine["spec"]["bootMACAddress"]}
        self.status(
            AGENT,
            made,
            {"inventory": {"interfaces": [port]}, "conditions": conditions(("Bound", "False", "Unbound"))},
        )

    def _install(self, install: Object, agents: list[Object]) -> None:
        """Begins when as many as are wanted are approved and bound, and ends at once; agents that come later join."""
        name, spec = install["metadata"]["name"], install["spec"]
        mine = [one for one in agents if (one["spec"].get("clusterDeploymentName") or {}).get("name") == name]
        bound = [one for one in mine if one["spec"]["approved"]]
        wanted = spec["provisionRequirements"]["controlPlaneAgents"] + spec["provisionRequirements"].get(
            "workerAgents", 0
        )
        if _done(install) or len(bound) >= wanted:
            for agent in bound:
                self._joins(agent)
            self.status(INSTALL, install, {"conditions": INSTALLED})
            self._tell(install)
            return
        for agent in bound:
            self.status(AGENT, agent, {"conditions": conditions(("Bound", "True", "Bound"))})
        message = f"The cluster currently requires {wanted} agents but only {len(bound)} have registered"
        missing = conditions(("RequirementsMet", "False", "InsufficientAgents"), message=message)
        self.status(INSTALL, install, {"conditions": missing})

    def _joins(self, agent: Object) -> None:
        quiet = agent["metadata"]["name"].removesuffix("-agent") in self.lost
        connected = (
            ("Connected", "False", "AgentIsDisconnected")
            if quiet
            else ("Connected", "True", "AgentIsConnected")
        )
        self.status(
            AGENT,
            agent,
            {
                "conditions": conditions(
                    ("Bound", "True", "Bound"), ("Installed", "True", "InstallationCompleted"), connected
                )
            },
        )

    def _tell(self, install: Object) -> None:
        name = install["metadata"]["name"]
        found = self.api.find(f"{KINDS[DEPLOYMENT].within(self.namespace)}/{name}")
        if found is not None and not (found.get("status") or {}).get("apiURL"):
            url = f"https://api.{name}.{found['spec']['baseDomain']}:6443"
            self.status(DEPLOYMENT, found, {"apiURL": url})


INSTALLED = conditions(
    ("RequirementsMet", "True", "ClusterAlreadyInstalling"),
    ("Completed", "True", "InstallationCompleted"),
    ("Failed", "False", "InstallationNotFailed"),
    ("Stopped", "True", "InstallationCompleted"),
)


def _done(install: Object) -> bool:
    told: list[Any] = (install.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Completed" and one["status"] == "True" for one in told)


def _state(machine: Object) -> str:
    return str(((machine.get("status") or {}).get("provisioning") or {}).get("state", ""))


def namespace_make(api: Api) -> str:
    name = f"hub-{uuid.uuid4().hex[:8]}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def cluster_of(found: Object) -> str:
    return str(found["metadata"]["labels"][CLUSTER])
