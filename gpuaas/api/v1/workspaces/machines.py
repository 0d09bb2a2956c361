"""Machines of a workspace at sites that sell whole machines: order, watch, act, delete, open the screen."""

import uuid

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.idempotency import idempotent, idempotent_secret
from gpuaas.api.schema import operation
from gpuaas.api.v1.workspaces.machine_shapes import (
    BelongingOutput,
    ConsoleInput,
    ConsoleOutput,
    MachineActionInput,
    MachineFlavorOutput,
    MachineImageOutput,
    MachineInput,
    MachineOutput,
    MachineQuery,
)
from gpuaas.api.v1.workspaces.views import WorkspaceView
from gpuaas.providers.base import MachineVerb
from gpuaas.workspaces.machines import services
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.selectors import (
    belongings_of,
    flavors_left,
    images_of,
    machine_get,
    machine_look_of,
    machines_of,
)
from gpuaas.workspaces.machines.states import LIVE, MachineState
from tenants.roles import Permission


class MachineBaseView(WorkspaceView):
    def machine(self, permission: Permission = Permission.WORKSPACE_VIEW) -> Machine:
        workspace = self.held(permission)
        key: uuid.UUID = self.kwargs["machine"]
        return machine_get(workspace=workspace, machine_id=key)

    def taken(self, machine: Machine) -> Response:
        """202 with the machine as it is now, its address, and its version."""
        project = machine.workspace.project.slug
        place = {"project": project, "workspace": str(machine.workspace_id), "machine": str(machine.pk)}
        headers = {"Location": reverse("api:machine", kwargs=place), "ETag": etag(machine.version)}
        return Response(MachineOutput(machine).data, status=202, headers=headers)


class MachinesView(MachineBaseView):
    @operation("machine_list", "List machines", rows=MachineOutput, query=MachineQuery)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists machines of all members, newest first; deleted ones only if `state` asks for them."""
        state = self.params.get("state")
        rows = machines_of(
            workspace=self.held(),
            states=[MachineState(state)] if state else LIVE,
            search=self.params.get("search", ""),
        )
        return self.page(rows, MachineOutput, key="-pk")

    @operation("machine_order", "Order a machine", body=MachineInput, accepted=MachineOutput)
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Refused at once if all that was bought is in use. The machine is made in the background within seconds:
        follow `Location`. If no host has room, its state is `failed`, with the reason."""
        found = self.held(Permission.WORKSPACE_ACCESS)
        order = services.MachineOrder(**self.input(MachineInput))
        return self.taken(services.machine_order(actor=self.actor, workspace=found, order=order))


class MachineView(MachineBaseView):
    @operation("machine_get", "Get a machine", answer=MachineOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """`ETag` is its version, with a digest of this answer: send it as If-Match with a change, which compares the version alone, or
        as If-None-Match to poll cheaply."""
        found = self.machine()
        return answer(request, version=found.version, data=MachineOutput(found).data)

    @operation("machine_delete", "Delete a machine", accepted=MachineOutput, versioned=True)
    def delete(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """Also deletes its disk, and a volume that was ordered with it. Repeating the request changes nothing."""
        found = self.machine(Permission.WORKSPACE_ACCESS)
        version = wanted_version(request)
        return self.taken(services.machine_delete(actor=self.actor, machine=found, expected_version=version))


class MachineActionsView(MachineBaseView):
    @operation(
        "machine_act", "Act on a machine", body=MachineActionInput, accepted=MachineOutput, versioned=True
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """One action at a time: 409 while another is running, or if the state does not allow it (`actions` lists what
        it allows). `verb` is empty again when the action is done; `failure` says why it failed."""
        found = self.machine(Permission.WORKSPACE_ACCESS)
        asked = self.input(MachineActionInput)
        acted = services.machine_act(
            actor=self.actor,
            machine=found,
            verb=MachineVerb(asked["verb"]),
            image=asked["image"],
            expected_version=wanted_version(request),
        )
        return self.taken(acted)


class MachineConsoleView(MachineBaseView):
    @operation(
        "machine_console",
        "Issue a link to the screen",
        body=ConsoleInput,
        created=ConsoleOutput,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """The link is short-lived, shown once, and works for anybody who has it. 409 if the machine does not run, or
        if the site shows no screens."""
        found = self.machine(Permission.WORKSPACE_ACCESS)
        self.input(ConsoleInput)
        console = services.console_request(actor=self.actor, machine=found)
        return Response(ConsoleOutput(console).data, status=201, headers={"Cache-Control": "no-store"})


class MachineFlavorsView(MachineBaseView):
    @operation("machine_flavor_list", "List flavors with what fits now", rows=MachineFlavorOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists each flavor that the workspace has bought: the size of one machine, how many exist, and how many fit
        now."""
        return self.page(flavors_left(workspace=self.held()), MachineFlavorOutput, key="flavor__slug")


class MachineImagesView(MachineBaseView):
    @operation("machine_image_list", "List images", rows=MachineImageOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists the images from which a machine can be made, as the site last reported them. They are read every five
        minutes."""
        found = images_of(machine_look_of(workspace=self.held()))
        return self.page(sorted(found, key=lambda row: row.id), MachineImageOutput, key="id")


class BelongingsView(MachineBaseView):
    @operation("machine_belonging_list", "Get other resources of the workspace", rows=BelongingOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Returns volumes, images, networks, floating IPs, security groups and key pairs at the site, as last
        reported."""
        found = belongings_of(machine_look_of(workspace=self.held()))
        return self.page(sorted(found, key=lambda row: row.uid), BelongingOutput, key="uid")
