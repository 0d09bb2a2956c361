"""What a simulated environment answers by HTTP: a page that shows what it was asked, a WebSocket that repeats what it is told,
and when it was last used, in the words of Jupyter and of code-server."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape

from websockets.frames import BINARY, TEXT, Frame
from websockets.http11 import Request
from websockets.server import ServerProtocol

from gpuaas.core import clock

MOST = 1 << 20
Headers = list[tuple[str, str]]


async def answer(
    name: str, use: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection, until it ends. use: `at`, and `kernel` if one runs."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = [
            (key.lower(), value.strip()) for key, _, value in (line.partition(":") for line in lines if line)
        ]
        if dict(headers).get("upgrade", "").lower() == "websocket":
            await _repeat(head, reader, writer)
            return
        await reader.readexactly(min(int(dict(headers).get("content-length", "0")), MOST))
        asked = {"environment": name, "method": method, "path": path, "headers": headers}
        text, kind = _said(use, path.partition("?")[0], asked)
        if "text/html" in dict(headers).get("accept", ""):
            text, kind = _page(name, f"{method} {path}", headers), "text/html; charset=utf-8"
        body = text.encode()
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )
        await writer.drain()


def _said(use: Mapping[str, str], path: str, asked: Mapping[str, object]) -> tuple[str, str]:
    """With its type."""
    if path == "/metrics":
        return _counted(use), "text/plain; version=0.0.4; charset=utf-8"
    return json.dumps(_used(use).get(path, asked)), "application/json"


def _counted(use: Mapping[str, str]) -> str:
    """In the words of vLLM, as if somebody had asked every 20 seconds since it began, unless the site is dialed otherwise."""
    asked = max(int((clock.now() - datetime.fromisoformat(use["at"])).total_seconds()) // 20, 0)
    usual = {"request_success": asked, "prompt_tokens": 350 * asked, "generation_tokens": 120 * asked}
    lines = []
    for name, count in usual.items():
        lines += [
            f"# TYPE vllm:{name}_total counter",
            f'vllm:{name}_total{{engine="0"}} {use.get(name, float(count))}',
        ]
    return "\n".join([*lines, ""])


def _used(use: Mapping[str, str]) -> dict[str, object]:
    """By path."""
    kernels = [{"execution_state": use["kernel"], "connections": 0}] if "kernel" in use else []
    beat = int(datetime.fromisoformat(use["at"]).timestamp() * 1000)
    return {
        "/api/status": {"last_activity": use["at"], "kernels": len(kernels), "connections": 0},
        "/api/kernels": kernels,
        "/healthz": {"status": "expired", "lastHeartbeat": beat},
    }


def _page(name: str, asked: str, headers: Headers) -> str:
    rows = "".join(f"<tr><th>{escape(key)}<td>{escape(value)}" for key, value in headers)
    style = "<style>body{font:1rem system-ui;margin:2rem;color-scheme:light dark}th{text-align:left;padding-right:2rem}</style>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(name)}</title>{style}<h1>{escape(name)}</h1>'
        f"<p>This site is simulated: nothing runs here. It was asked for <code>{escape(asked)}</code> with these headers:</p>"
        f"<table>{rows}</table></html>"
    )


async def _repeat(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    socket = ServerProtocol()
    socket.receive_data(head)
    while True:
        for event in socket.events_received():
            if isinstance(event, Request):
                socket.send_response(socket.accept(event))
            elif isinstance(event, Frame) and event.opcode is TEXT:
                socket.send_text(bytes(event.data))
            elif isinstance(event, Frame) and event.opcode is BINARY:
                socket.send_binary(event.data)
        writer.writelines(_sent(socket.data_to_send()))
        await writer.drain()
        received = await reader.read(65536)
        if not received or socket.close_expected():
            return
        socket.receive_data(received)


def _sent(parts: Iterable[bytes]) -> Iterable[bytes]:
    """An empty one asks to end the connection, which whoever called does."""
    return [part for part in parts if part]
