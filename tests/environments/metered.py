"""Servers whose counters are read: real ones with Prometheus' own client, and ones that answer what they like."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from wsgiref.simple_server import WSGIRequestHandler, make_server

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Histogram, make_asgi_app, make_wsgi_app

from tests.lab.fixtures import until

NAMES = ("model_name", "engine")
LABELS = ("Qwen/Qwen3-8B", "0")
TEXT = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
GOOD = b"vllm:request_success_total 5\nvllm:prompt_tokens_total 50\nvllm:generation_tokens_total 25\n"


@dataclass
class Model:
    """Counts as vLLM does, by the same library."""

    registry: CollectorRegistry
    prompt: Counter = field(init=False)
    generated: Counter = field(init=False)
    done: Counter = field(init=False)
    length: Histogram = field(init=False)

    def __post_init__(self) -> None:
        to = self.registry
        self.prompt = Counter("vllm:prompt_tokens", "Prefill tokens.", NAMES, registry=to)
        self.generated = Counter("vllm:generation_tokens", "Generated tokens.", NAMES, registry=to)
        self.done = Counter("vllm:request_success", "Requests.", (*NAMES, "finished_reason"), registry=to)
        self.length = Histogram("vllm:request_prompt_tokens", "Of a request.", NAMES, registry=to)

    def serve(self, tokens_in: int, tokens_out: int, *, reason: str) -> None:
        self.prompt.labels(*LABELS).inc(tokens_in)
        self.generated.labels(*LABELS).inc(tokens_out)
        self.length.labels(*LABELS).observe(tokens_in)
        self.done.labels(*LABELS, reason).inc()


@contextlib.contextmanager
def served(registry: CollectorRegistry, server: str) -> Iterator[int]:
    """The port, until the block ends. uvicorn: as vLLM's own server is."""
    if server == "wsgi":
        made = make_server("127.0.0.1", 0, make_wsgi_app(registry), handler_class=_Silent)
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield made.server_port
        finally:
            made.shutdown()
            thread.join(10)
            made.server_close()
        return
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            make_asgi_app(registry),
            log_level="error",
            lifespan="off",
            http="h11" if server == "h11" else "httptools",
        )
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        try:
            until(lambda: running.started, "it listens")
            yield listening.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join(10)


class _Silent(WSGIRequestHandler):
    def log_message(self, *_given: object) -> None:
        """Nothing."""


ANSWERS: dict[str, bytes] = {
    "nothing": b"",
    "another type": TEXT.replace(b"text/plain", b"application/json") + b"\r\n" + GOOD,
    "no type": b"HTTP/1.1 200 OK\r\n\r\n" + GOOD,
    "an error": TEXT.replace(b"200 OK", b"500 No") + b"\r\n" + GOOD,
    "a status of nulls": b"HTTP/1.1 \0\0\0 OK\r\n\r\n",
    "a way elsewhere": b"HTTP/1.1 307 Go\r\nLocation: http://10.0.0.1/metrics\r\n\r\n",
    "a length that is too much": TEXT + b"Content-Length: 99999999\r\n\r\n" + GOOD,
    "less than its length": TEXT + b"Content-Length: 500\r\n\r\n" + GOOD,
    "a negative chunk": TEXT + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n" + GOOD,
    "a huge chunk": TEXT + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + GOOD,
    "no chunk": TEXT + b"Transfer-Encoding: chunked\r\n\r\n" + GOOD,
    "no end": TEXT + b"\r\n" + GOOD,
    "cut short": TEXT + b"\r\n" + GOOD.partition(b"vllm:generation")[0],
    "no text": TEXT + b"\r\n" + GOOD + b"\xff\xfe",
    "no number": TEXT + b"\r\n" + GOOD + b"vllm:prompt_tokens_total NaN\n",
    # of which each may be lower than before only where all have begun anew
    **{
        f"without {name}": TEXT + b"Content-Length: %d\r\n\r\n" % len(rest) + rest
        for name, rest in (
            (line.decode().partition(" ")[0], GOOD.replace(line, b""))
            for line in GOOD.splitlines(keepends=True)
        )
    },
    "another server": TEXT + b"\r\nnode_load1 5\n",
}
# no border of a chunk is one of a line or of a number
CHUNKS = "chunks"
PARTS = [GOOD[at : at + 7] for at in range(0, len(GOOD), 7)]
WHOLE = b"".join(b"%x;more=yes\r\n%b\r\n" % (len(part), part) for part in PARTS)
ENDLESS = {
    "an endless body": (TEXT + b"\r\n", b"# nothing\n" * 1000),
    "an endless line": (TEXT + b"\r\nvllm:prompt_tokens_total{", b"} }" * 1000),
    "endless chunks": (TEXT + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000),
    "an endless head": (TEXT, b"X-More: more\r\n" * 1000),
    "a body by drops": (TEXT + b"\r\n", b""),
    "silence": (b"", b""),
}
HOSTILE = [*ANSWERS, *ENDLESS]


@contextlib.contextmanager
def hostile(way: str) -> Iterator[int]:
    """The port of one that answers so, until the block ends."""
    over = threading.Event()

    def answer(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.recv(4096)
            if way == CHUNKS:
                client.sendall(TEXT + b"Transfer-Encoding: chunked\r\n\r\n" + WHOLE + b"0\r\n\r\n")
                return
            if way in ANSWERS:
                client.sendall(ANSWERS[way])
                return
            first, again = ENDLESS[way]
            client.sendall(first)
            while not over.is_set():
                client.sendall(again or (b"#" if way == "a body by drops" else b""))
                if not again:
                    over.wait(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)

        def run() -> None:
            with contextlib.suppress(OSError):
                answer(listening.accept()[0])

        thread = threading.Thread(target=run)
        thread.start()
        began = time.monotonic()
        try:
            yield listening.getsockname()[1]
            assert time.monotonic() - began < 5, "it was left in time"
        finally:
            over.set()
            thread.join(15)
