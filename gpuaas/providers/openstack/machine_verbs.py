"""The driver's machine verbs, each handed to the module that does it."""

import uuid
from collections.abc import Mapping
from functools import cached_property

from gpuaas.providers.base import (
    Belongings,
    Console,
    MachineCapability,
    MachineImage,
    MachineOrder,
    MachineVerb,
    ObservedMachine,
    WorkspaceRef,
)
from gpuaas.providers.openstack import belongings, projects
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.machines import Machines


class OpenStackMachines(MachineCapability):
    """A part of the driver, which knows the cloud, its domain and its classes of GPUs."""

    _cloud: Cloud
    _classes: Mapping[str, str]
    _domain: str

    @cached_property
    def _machines(self) -> Machines:
        return Machines(self._cloud, self._classes, domain=self._domain)

    def images(self, ref: WorkspaceRef) -> tuple[MachineImage, ...]:
        return self._machines.images(ref)

    def launch(self, ref: WorkspaceRef, order: MachineOrder) -> ObservedMachine:
        return self._machines.launch(ref, order)

    def machines(self, ref: WorkspaceRef) -> tuple[ObservedMachine, ...]:
        return self._machines.machines(ref)

    def act(
        self, ref: WorkspaceRef, uid: str, verb: MachineVerb, *, action: uuid.UUID, image: str = ""
    ) -> None:
        self._machines.act(ref, uid, verb, action=action, image=image)

    def console(self, ref: WorkspaceRef, uid: str) -> Console:
        return self._machines.console(ref, uid)

    def belongings(self, ref: WorkspaceRef) -> Belongings:
        project = projects.project_find(self._cloud, ref.external_name, domain=self._domain)
        own = project if project is not None and projects.is_ours(project, ref.id) else None
        return belongings.belongings(self._cloud, own)
