"""Enough of an API client to fill the lab with nodes; everything else belongs to a real client."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from deploy.lab.kubernetes.errors import ApiError

FIELD_MANAGER = "gpuaas-lab"


class Client:
    """Speaks as the admin. Connects directly: a proxy named in the environment knows no loopback of ours."""

    def __init__(self, port: int, pki: Path) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        if (pki / "admin.crt").exists():  # the API of a cluster in memory asks nobody who it is
            self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        """Raises ApiError for an answer that refuses, OSError or HTTPException where there is no answer."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=10)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": kind, "Accept": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        found: dict[str, Any] = json.loads(text) if text.startswith("{") else {"message": text}
        if answer.status >= 300:
            raise ApiError(answer.status, found.get("message", text))
        return found

    def apply(self, collection: str, body: dict[str, Any], *, subresource: str = "") -> None:
        """Server-side apply: creates it or brings our fields back, and leaves those of others."""
        path = f"{collection}/{body['metadata']['name']}{subresource}?fieldManager={FIELD_MANAGER}&force=true"
        self.call("PATCH", path, body, "application/apply-patch+yaml")
