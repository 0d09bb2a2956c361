"""The caller's own public keys, given to the machines that they launch."""

from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.machine_shapes import KeyInput, KeyOutput
from gpuaas.api.views import ApiView
from gpuaas.workspaces.machines.keys import key_get_for, keypair_add, keypair_remove, keys_for

TAG = "keys"


class KeysView(ApiView):
    @operation("key_list", "List your keys", tag=TAG, answer=page_of(KeyOutput), query=PageQuery)
    def get(self, request: Request) -> Response:
        """One's own; for a token those of the person who made it."""
        del request
        return self.page(keys_for(actor=self.actor), KeyOutput, key="name")

    @operation("key_add", "Add a key", tag=TAG, body=KeyInput, answer=KeyOutput, status=201)
    @idempotent
    def post(self, request: Request) -> Response:
        """By a signed-in person, never by a token. Machines are given the keys that they are launched with."""
        del request
        made = keypair_add(actor=self.actor, **self.input(KeyInput))
        return Response(KeyOutput(made).data, status=201)


class KeyView(ApiView):
    @operation("key_remove", "Remove a key", tag=TAG, status=204)
    def delete(self, request: Request, key: str) -> Response:
        """Machines that were launched with it keep it."""
        del request
        keypair_remove(actor=self.actor, key=key_get_for(actor=self.actor, name=key))
        return Response(status=204)
