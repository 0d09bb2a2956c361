"""Environments of a project: order, watch, start, stop, restart, clone, delete, and read the log."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer
from gpuaas.api.idempotency import idempotent, idempotent_secret
from gpuaas.api.schema import operation
from gpuaas.api.v1.environments.shapes import (
    DoorKeyInput,
    DoorKeyOutput,
    EnvironmentChangeInput,
    EnvironmentCloneInput,
    EnvironmentInput,
    EnvironmentKeepInput,
    EnvironmentKindOutput,
    EnvironmentLogInput,
    EnvironmentLogOutput,
    EnvironmentOperationOutput,
    EnvironmentOutput,
    EnvironmentQuery,
    NewDoorKeyOutput,
    TokenDayOutput,
    state_of,
)
from gpuaas.api.v1.held import HeldView
from gpuaas.api.views import ProjectView
from gpuaas.core.rows import one_or_none
from gpuaas.environments import services
from gpuaas.environments.models import Environment, EnvironmentLog
from gpuaas.environments.selectors import (
    environment_get_for,
    environments_for,
    environments_loaded,
    key_get,
    keys_of,
    kinds_offered,
    operations_of,
    token_days_of,
)
from gpuaas.environments.services.rows import permit
from gpuaas.environments.states import EnvironmentState
from tenants.roles import Permission


class EnvironmentKindsView(ProjectView):
    @operation("environment_kind_list", "List kinds of environments", rows=EnvironmentKindOutput)
    def get(self, request: Request, project: str) -> Response:
        """Lists what can be ordered, each with the JSON Schema of its parameters and its default size."""
        self.project(Permission.WORKSPACE_VIEW)
        return self.page(kinds_offered(), EnvironmentKindOutput, key="slug")


class EnvironmentView(HeldView[Environment]):
    noun, output, changes = "environment", EnvironmentOutput, Permission.WORKSPACE_ACCESS
    get_for, loaded = staticmethod(environment_get_for), staticmethod(environments_loaded)

    def entered(self) -> Environment:
        """For those alone who may run things in its workspace."""
        found = self.held(self.changes)
        permit(self.actor, found)
        return found


class EnvironmentsView(EnvironmentView):
    @operation("environment_list", "List environments", rows=EnvironmentOutput, query=EnvironmentQuery)
    def get(self, request: Request, project: str) -> Response:
        """Lists environments of the project, newest first. Deleted ones are included unless `state` excludes them."""
        params = self.params
        rows = environments_for(
            actor=self.actor,
            project=self.project(Permission.WORKSPACE_VIEW),
            states=[state_of(params["state"])] if "state" in params else list(EnvironmentState),
            search=params.get("search", ""),
        )
        asked = {"made_of__kind__slug": params.get("kind"), "workspace": params.get("workspace")}
        rows = rows.filter(**{name: value for name, value in asked.items() if value})
        return self.page(rows, EnvironmentOutput, key="-pk")

    @operation(
        "environment_create", "Order an environment", body=EnvironmentInput, accepted=EnvironmentOutput
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Refused at once if its workspace is not ready, or has less free than is asked for. The environment is made
        in the background: follow `Location`, or `…/operations` for the steps."""
        found = self.project(self.changes)
        asked = self.input(EnvironmentInput)
        workspace = self.workspace_in(found, asked.pop("workspace"))
        return self.accepted(services.environment_create(actor=self.actor, workspace=workspace, **asked))


class EnvironmentDetailView(EnvironmentView):
    @operation("environment_get", "Get an environment", answer=EnvironmentOutput)
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """`ETag` is its version, with a digest of this answer: send it as If-Match with a change, which compares the version alone, or
        as If-None-Match to poll cheaply."""
        found = self.held()
        return answer(request, version=found.version, data=EnvironmentOutput(found).data)

    @operation(
        "environment_change",
        "Change an environment's idle time and who may open it",
        body=EnvironmentChangeInput,
        accepted=EnvironmentOutput,
        versioned=True,
    )
    def patch(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """What was announced is taken back, and announced anew for the new hours. Connections of people whom a new `access` no
        longer admits end within 5 seconds, and keys of one that is no longer public are revoked. 403 for somebody else's
        private one."""
        return self.changed(services.environment_change, EnvironmentChangeInput)

    @operation("environment_delete", "Delete an environment", accepted=EnvironmentOutput, versioned=True)
    def delete(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Its home is deleted with it. Repeating the request changes nothing."""
        return self.changed(services.environment_delete)


class EnvironmentStartView(EnvironmentView):
    @operation("environment_start", "Start an environment", accepted=EnvironmentOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Starts a stopped one with its home, or tries a failed one again. 409 if its workspace has no room for it
        now."""
        return self.changed(services.environment_start)


class EnvironmentStopView(EnvironmentView):
    @operation("environment_stop", "Stop an environment", accepted=EnvironmentOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Ends all that runs in it; its home stays. Repeating the request changes nothing."""
        return self.changed(services.environment_stop)


class EnvironmentRestartView(EnvironmentView):
    @operation("environment_restart", "Restart an environment", accepted=EnvironmentOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Ends it and starts it anew, with its home."""
        return self.changed(services.environment_restart)


class EnvironmentKeepView(EnvironmentView):
    @operation(
        "environment_keep",
        "Keep an environment running",
        body=EnvironmentKeepInput,
        accepted=EnvironmentOutput,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """It is not stopped for want of use before `until`. 409 unless it is ready."""
        return self.changed(services.environment_keep, EnvironmentKeepInput)


class EnvironmentCloneView(EnvironmentView):
    @operation(
        "environment_clone", "Clone an environment", body=EnvironmentCloneInput, accepted=EnvironmentOutput
    )
    @idempotent
    def post(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Another one of the same version, size and parameters, with an empty home of its own."""
        found = self.held(self.changes)
        asked = self.input(EnvironmentCloneInput)
        return self.accepted(services.environment_clone(actor=self.actor, environment=found, **asked))


class EnvironmentKeysView(EnvironmentView):
    @operation("environment_key_list", "List keys of an environment", rows=DoorKeyOutput)
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Newest first, with those that were revoked. 403 for those who may not use environments in its workspace."""
        return self.page(keys_of(environment=self.entered()), DoorKeyOutput, key="-pk")

    @operation(
        "environment_key_create",
        "Create a key of an environment",
        body=DoorKeyInput,
        created=NewDoorKeyOutput,
    )
    @idempotent_secret
    def post(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Opens the environment's address to programs (`Authorization: Bearer …`) and to people without an account. 409 unless
        its `access` is `public`."""
        found = self.held(self.changes)
        key, raw = services.key_create(actor=self.actor, environment=found, **self.input(DoorKeyInput))
        data = {**DoorKeyOutput(key).data, "key": raw}
        return Response(data, status=201, headers={"Cache-Control": "no-store"})


class EnvironmentKeyView(EnvironmentView):
    @operation("environment_key_get", "Get a key of an environment", answer=DoorKeyOutput)
    def get(self, request: Request, project: str, environment: uuid.UUID, door_key: uuid.UUID) -> Response:
        """Its name, beginning, and when it was last used; the key itself is shown only once, when it is created."""
        found = key_get(environment=self.entered(), key_id=door_key)
        return Response(DoorKeyOutput(found).data)

    @operation("environment_key_revoke", "Revoke a key of an environment")
    def delete(self, request: Request, project: str, environment: uuid.UUID, door_key: uuid.UUID) -> Response:
        """Open connections that came in by it end within 5 seconds. Repeating the request changes nothing."""
        found = key_get(environment=self.held(self.changes), key_id=door_key)
        services.key_revoke(actor=self.actor, key=found)
        return Response(status=204)


class EnvironmentOperationsView(EnvironmentView):
    @operation("environment_operations", "List operations of an environment", rows=EnvironmentOperationOutput)
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Newest first, with each step and what was observed."""
        return self.page(operations_of(environment=self.held()), EnvironmentOperationOutput, key="-pk")


class EnvironmentLogView(EnvironmentView):
    @operation("environment_log", "Get the log of an environment", answer=EnvironmentLogOutput)
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """The last lines, as they were when somebody asked for them. 403 for those who may not use environments in its
        workspace."""
        return Response(EnvironmentLogOutput(_log_of(self.entered())).data)

    @operation(
        "environment_log_fetch",
        "Fetch the log of an environment",
        body=EnvironmentLogInput,
        accepted=EnvironmentLogOutput,
    )
    @idempotent
    def post(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """The portal asks the site in the background: `fetching` is false again once it has answered."""
        found = self.held(self.changes)
        asked = self.input(EnvironmentLogInput)
        services.environment_log_ask(actor=self.actor, environment=found, **asked)
        return Response(EnvironmentLogOutput(_log_of(found)).data, status=202)


def _log_of(row: Environment) -> EnvironmentLog:
    return one_or_none(EnvironmentLog.objects.filter(environment=row)) or EnvironmentLog(environment=row)


class EnvironmentTokensView(EnvironmentView):
    @operation(
        "environment_token_days", "List requests and tokens of an environment by day", rows=TokenDayOutput
    )
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """What the server of a model has counted itself, to about a minute; newest first, without days on which it counted nothing.
        Empty for kinds that count nothing."""
        return self.page(token_days_of(environment=self.held()), TokenDayOutput, key="-day")
