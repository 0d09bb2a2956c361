"""Programs that are started in a container through the API server, as `kubectl exec` does.

Version 5 of the protocol (Kubernetes 1.30) can say that the input has ended; with version 4 a program that waits for that waits
until the connection ends.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.providers.base import Size, Streams
from gpuaas.providers.kubeapi.channels import V4, V5, frame_of, opened, send
from gpuaas.providers.kubeapi.client import Api

END_OF_INPUT = b"\x04"  # Ctrl-D
INPUT, OUTPUT, ERRORS, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


async def run(
    api: Api, path: str, container: str, command: Sequence[str], streams: Streams, *, terminal: bool
) -> int:
    """path: of the pod. The exit code. Raises NotFound where the program cannot be started, and the errors of a call."""
    asked = {
        "container": container,
        "stdin": "true",
        "stdout": "true",
        "stderr": "false" if terminal else "true",
        "tty": "true" if terminal else "false",
    }
    query = urlencode([*asked.items(), *(("command", word) for word in command)], errors="surrogateescape")
    async with opened(api, f"{path}/exec?{query}", [V5, V4]) as site:
        sending = asyncio.create_task(_send(site, streams, terminal=terminal))
        try:
            return await _receive(site, streams)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def _send(site: ClientConnection, streams: Streams, *, terminal: bool) -> None:
    """A terminal is told of the end of its input as by a keyboard: if its stream ends, containerd ends its output, too."""
    while content := await streams.read():
        if isinstance(content, Size):
            size = json.dumps({"Width": content.columns, "Height": content.rows})
            await site.send(bytes([RESIZE]) + size.encode())
        else:
            await send(site, INPUT, content)
    if terminal:
        await site.send(bytes([INPUT]) + END_OF_INPUT)
    elif site.subprotocol == V5:
        await site.send(bytes([CLOSE, INPUT]))


async def _receive(site: ClientConnection, streams: Streams) -> int:
    async for message in site:
        channel, content = frame_of(message)
        if channel in {OUTPUT, ERRORS} and content:
            await streams.write(content, is_error=channel == ERRORS)
        elif channel == STATUS:
            return code_of(json.loads(content))
    raise Unavailable("the site ended the connection before the program had ended")


def code_of(status: Mapping[str, Any]) -> int:
    """Of a `v1.Status`, as the kubelet words it (`remotecommand` of k8s.io/apimachinery: NonZeroExitCode, ExitCode). Raises
    NotFound for anything else than an end of the program."""
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or []
    code = next((each["message"] for each in causes if each.get("reason") == "ExitCode"), None)
    if code is None:
        raise NotFound(f"the program was not started: {str(status.get('message', ''))[:300]}")
    return int(code)
