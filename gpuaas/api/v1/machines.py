"""Machines of a workspace at sites that sell them whole: order, watch, act, delete, see the screen."""

import uuid

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent, idempotent_secret
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.machine_shapes import (
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
from gpuaas.api.v1.workspaces import WorkspaceView
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

TAG = "machines"


class MachineBaseView(WorkspaceView):
    def machine(self, permission: Permission = Permission.WORKSPACE_VIEW) -> Machine:
        workspace = self.workspace(permission)
        key: uuid.UUID = self.kwargs["machine"]
        return machine_get(workspace=workspace, machine_id=key)

    def taken(self, machine: Machine) -> Response:
        """202 with the machine as it is now, where it lives, and its version."""
        project = machine.workspace.project.slug
        place = {"project": project, "workspace": str(machine.workspace_id), "machine": str(machine.pk)}
        headers = {"Location": reverse("api:machine", kwargs=place), "ETag": etag(machine.version)}
        return Response(MachineOutput(machine).data, status=202, headers=headers)


class MachinesView(MachineBaseView):
    @operation("machine_list", "List machines", tag=TAG, answer=page_of(MachineOutput), query=MachineQuery)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Whoever made them, newest first; deleted ones only where `state` asks for them."""
        del request, project, workspace
        state = self.params.get("state")
        rows = machines_of(
            workspace=self.workspace(),
            states=[MachineState(state)] if state else LIVE,
            search=self.params.get("search", ""),
        )
        return self.page(rows, MachineOutput, key="-pk")

    @operation(
        "machine_order", "Order a machine", tag=TAG, body=MachineInput, answer=MachineOutput, status=202
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Refused at once where what was bought is taken. It is made in the background, within seconds: follow `Location`;
        where no host has room it is `failed` and says so.
        """
        del request, project, workspace
        found = self.workspace(Permission.WORKSPACE_ACCESS)
        wish = services.Wish(**self.input(MachineInput))
        return self.taken(services.machine_order(actor=self.actor, workspace=found, wish=wish))


class MachineView(MachineBaseView):
    @operation("machine_get", "Look at a machine", tag=TAG, answer=MachineOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """`ETag` is its version; send it as If-Match with a change, or as If-None-Match to poll cheaply."""
        del project, workspace, machine
        found = self.machine()
        return answer(request, version=found.version, data=MachineOutput(found).data)

    @operation(
        "machine_delete", "Delete a machine", tag=TAG, answer=MachineOutput, status=202, versioned=True
    )
    def delete(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """Its disk, and a volume that was ordered with it, go too. Again changes nothing."""
        del project, workspace, machine
        found = self.machine(Permission.WORKSPACE_ACCESS)
        version = wanted_version(request)
        return self.taken(services.machine_delete(actor=self.actor, machine=found, expected_version=version))


class MachineActionsView(MachineBaseView):
    @operation(
        "machine_act",
        "Start, stop, restart, rebuild, shelve or unshelve",
        tag=TAG,
        body=MachineActionInput,
        answer=MachineOutput,
        status=202,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """One at a time: 409 while another is under way, or where the state does not allow it (`actions` says what it
        allows). `verb` is empty again when it is done; `failure` says why it was not.
        """
        del project, workspace, machine
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
        "Take a link to the screen",
        tag=TAG,
        body=ConsoleInput,
        answer=ConsoleOutput,
        status=201,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID, machine: uuid.UUID) -> Response:
        """Short-lived, shown once, for whoever holds it. 409 where it does not run, or the site shows no screens."""
        del request, project, workspace, machine
        found = self.machine(Permission.WORKSPACE_ACCESS)
        self.input(ConsoleInput)
        console = services.console_request(actor=self.actor, machine=found)
        return Response(ConsoleOutput(console).data, status=201, headers={"Cache-Control": "no-store"})


class MachineFlavorsView(MachineBaseView):
    @operation(
        "machine_flavor_list",
        "What fits now",
        tag=TAG,
        answer=page_of(MachineFlavorOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Each flavor that the workspace has bought: what one machine gets, how many there are and how many fit now."""
        del request, project, workspace
        return self.page(flavors_left(workspace=self.workspace()), MachineFlavorOutput, key="flavor__slug")


class MachineImagesView(MachineBaseView):
    @operation(
        "machine_image_list", "List images", tag=TAG, answer=page_of(MachineImageOutput), query=PageQuery
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Of which a machine can be made, as the site last said; looked at every five minutes."""
        del request, project, workspace
        found = images_of(machine_look_of(workspace=self.workspace()))
        return self.page(sorted(found, key=lambda row: row.id), MachineImageOutput, key="id")


class BelongingsView(MachineBaseView):
    @operation(
        "machine_belonging_list",
        "What else the workspace has",
        tag=TAG,
        answer=page_of(BelongingOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Volumes, images, networks, floating IPs, security groups and key pairs at the site, as it last said."""
        del request, project, workspace
        found = belongings_of(machine_look_of(workspace=self.workspace()))
        return self.page(sorted(found, key=lambda row: row.uid), BelongingOutput, key="uid")
