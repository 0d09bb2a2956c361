"""The caller's own public keys, which their machines get at launch."""

from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.workspaces.machine_shapes import KeyInput, KeyOutput
from gpuaas.api.views import ApiView
from gpuaas.workspaces.machines.keys import keypair_add, keypair_remove, keys_for, own_key_get


class KeysView(ApiView):
    @operation("key_list", "List your keys", rows=KeyOutput)
    def get(self, request: Request) -> Response:
        """Lists your own keys; a token sees those of the person who created it."""
        return self.page(keys_for(actor=self.actor), KeyOutput, key="name")

    @operation("key_add", "Add a key", body=KeyInput, created=KeyOutput)
    @idempotent
    def post(self, request: Request) -> Response:
        """Only for signed-in people, not for tokens. Machines get the keys that exist when they are launched."""
        made = keypair_add(actor=self.actor, **self.input(KeyInput))
        return Response(KeyOutput(made).data, status=201)


class KeyView(ApiView):
    @operation("key_get", "Get a key", answer=KeyOutput)
    def get(self, request: Request, key: str) -> Response:
        """Returns your own key, to signed-in people only; a token sees the keys of its creator in the list."""
        return Response(KeyOutput(own_key_get(actor=self.actor, name=key)).data)

    @operation("key_remove", "Remove a key")
    def delete(self, request: Request, key: str) -> Response:
        """Machines that were launched with it keep it."""
        keypair_remove(actor=self.actor, key=own_key_get(actor=self.actor, name=key))
        return Response(status=204)
