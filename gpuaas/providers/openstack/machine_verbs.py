"""The driver's machine verbs, each handed to the module that does it."""

import uuid
from abc import abstractmethod
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

    @abstractmethod
    def _parts(self) -> tuple[Cloud, Mapping[str, str], str]:
        """The cloud, alias → resource class, and the domain of its projects."""

    @cached_property
    def _machines(self) -> Machines:
        cloud, classes, domain = self._parts()
        return Machines(cloud, classes, domain=domain)

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
        cloud, _, domain = self._parts()
        project = projects.project_find(cloud, ref.external_name, domain=domain)
        own = project if project is not None and projects.is_ours(project, ref.id) else None
        return belongings.belongings(cloud, own)
