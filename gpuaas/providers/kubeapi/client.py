"""One site's API: plain JSON in and out, a time limit on every call, and every failure as one of our errors.

Objects stay dictionaries, as the API server writes them: what we apply is exactly what the manifests say, and fields
newer than the client library are not lost. Nothing but this module sees an exception of the client or of HTTP.
"""

import base64
import json
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlencode, urlsplit

import orjson
import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_kube_config_from_dict

from gpuaas.core.errors import NotFound, Permanent, Unauthorized, Unavailable, Unusable
from gpuaas.providers.kubeconfig import INLINE_KEYS, unsafe_keys
from gpuaas.providers.reach import address_check, pools_guard

Object = dict[str, Any]

FIELD_MANAGER = "gpuaas"
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
PAGE = 500
CONNECTIONS_KEPT = 64
MANAGED, MANAGED_END = b',"managedFields":[', b']},"spec":'


class Expired(Unavailable):
    """The requested version is too old: start again from a full list."""


class Outdated(Unavailable):
    """The object changed between read and write: read it again."""


class _Answer(Protocol):
    """The parts of an HTTP response that we use."""

    status: int
    data: bytes
    headers: Mapping[str, str]

    def stream(self, amt: int) -> Iterator[bytes]: ...
    def release_conn(self) -> None: ...
    def drain_conn(self) -> None: ...
    def close(self) -> None: ...


class _Pool(Protocol):
    def request(self, method: str, url: str, **options: Any) -> _Answer: ...
    def clear(self) -> None: ...


class Api:
    """Bound to one kubeconfig. Raises only errors of core: Unavailable, Unauthorized, NotFound, Permanent."""

    def __init__(self, kubeconfig: str) -> None:
        self._configuration = _configuration(kubeconfig)
        rest = RESTClientObject(self._configuration)  # type: ignore[call-arg]  # the stub lacks its signature
        address_check(self.server)
        pools_guard(cast("Any", rest).pool_manager)
        self._pool = cast("_Pool", cast("Any", rest).pool_manager)

    @property
    def server(self) -> str:
        return str(self._configuration.host).rstrip("/")

    @property
    def ca_file(self) -> str:
        """File of the site's certificate authority, written by the loader; empty for one that the system trusts."""
        return str(cast("Any", self._configuration).ssl_ca_cert or "")

    @property
    def authority(self) -> str:
        """The site's certificate authority in base64; empty for one that the system trusts."""
        return base64.b64encode(Path(self.ca_file).read_bytes()).decode() if self.ca_file else ""

    @property
    def proxy(self) -> str | None:
        """By which the site is called, if it is by one."""
        return cast("Any", self._configuration).proxy or None

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """As calls have it, for what is no call; None where the site speaks plain HTTP."""
        if not self.server.startswith("https://"):
            return None
        given = cast("Any", self._configuration)
        context = ssl.create_default_context(cafile=given.ssl_ca_cert or None)
        if not given.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if given.cert_file:
            context.load_cert_chain(given.cert_file, given.key_file or None)
        return context

    @property
    def tls_name(self) -> str:
        """By which the site's certificate is judged."""
        return str(cast("Any", self._configuration).tls_server_name or urlsplit(self.server).hostname or "")

    def close(self) -> None:
        self._pool.clear()

    def get(self, path: str, **query: str) -> Object:
        return self._call("GET", path, query=query)

    def find(self, path: str, **query: str) -> Object | None:
        """None if it does not exist."""
        try:
            return self.get(path, **query)
        except NotFound:
            return None

    def pages(self, path: str, **query: str) -> Iterator[Object]:
        """A whole collection, page by page, at one version: after the first page the token says which, and nothing else may."""
        select = query
        while True:
            page = self.get(path, limit=str(PAGE), **select)
            yield page
            if not (token := page["metadata"].get("continue")):
                return
            select = {key: each for key, each in query.items() if not key.startswith("resourceVersion")}
            select["continue"] = token

    def items(self, path: str, **query: str) -> list[Object]:
        return [item for page in self.pages(path, **query) for item in page.get("items") or []]

    def items_if_known(self, path: str, **query: str) -> list[Object]:
        """Empty if the site does not serve the kind (an older version, a disabled feature)."""
        try:
            return self.items(path, **query)
        except NotFound:
            return []

    def text(
        self, path: str, *, most: int, seconds: float = READ_SECONDS, last: bool = False, **query: str
    ) -> str:
        """A text that is not JSON (a log, a page of metrics), cut after about `most` bytes; the `last` ones, if the site bounds it."""
        with (
            _in_our_words(),
            closing(self._send("GET", path, query=query, read_seconds=seconds, accept="*/*")) as answer,
        ):
            found, cut = b"", slice(-most, None) if last else slice(most)
            chunks = answer.stream(65536)
            while (last or len(found) < most) and (chunk := next(chunks, b"")):
                found = (found + chunk)[cut]
            return found.decode(errors="replace")

    def server_time(self) -> datetime | None:
        """The API server's clock, to the second."""
        with _in_our_words():
            answer = self._send("GET", "/version", query={})
            answer.drain_conn()  # which gives the connection back
            date = answer.headers.get("Date")
            return parsedate_to_datetime(date) if date else None

    def create(self, path: str, body: Object, **query: str) -> Object:
        return self._call("POST", path, body=body, query={"fieldManager": FIELD_MANAGER, **query})

    def apply(self, collection: str, body: Object, *, dry_run: bool = False) -> Object:
        """Server-side apply: creates the object, or restores the fields we own; repeating it changes nothing."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        path = f"{collection}/{body['metadata']['name']}"
        return self._call("PATCH", path, body=body, query=query, content="application/apply-patch+yaml")

    def replace(self, path: str, body: Object) -> Object:
        """Replace the whole object at the body's resourceVersion. Raises Outdated if it has another one by now."""
        return self._call("PUT", path, body=body, query={"fieldManager": FIELD_MANAGER})

    def merge(self, path: str, change: Object, **query: str) -> Object:
        """JSON merge patch: None removes a field."""
        query = {"fieldManager": FIELD_MANAGER, **query}
        return self._call("PATCH", path, body=change, query=query, content="application/merge-patch+json")

    def warnings(self, path: str, change: Object) -> list[str]:
        """The warnings that this merge patch would produce; a dry run."""
        query = {"fieldManager": FIELD_MANAGER, "dryRun": "All"}
        with _in_our_words():
            answer = self._send(
                "PATCH", path, query=query, body=change, content="application/merge-patch+json"
            )
            answer.drain_conn()  # which gives the connection back
        found = cast("Any", answer.headers).getlist("Warning")
        return [text.split(" ", 2)[-1].strip('"').replace('\\"', '"') for text in found]

    def delete(self, path: str, body: Object | None = None, **query: str) -> bool:
        """False if it was already gone. Also deletes collections."""
        try:
            self._call("DELETE", path, body=body, query=query)
        except NotFound:
            return False
        return True

    def watch(self, path: str, *, version: str, seconds: int, **select: str) -> Iterator[Object]:
        """Events after `version`, with bookmarks, until the server ends the watch. Raises Expired for an old version."""
        yield from self._watch(path, version, seconds, select, orjson.loads)

    def watch_lean(self, path: str, *, version: str, seconds: int) -> Iterator[Object]:
        """The same without metadata.managedFields, which halves the amount of data to parse."""
        yield from self._watch(path, version, seconds, {}, _read_lean)

    def _watch(
        self,
        path: str,
        version: str,
        seconds: int,
        select: Mapping[str, str],
        read: Callable[[bytes], Object],
    ) -> Iterator[Object]:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            **select,
        }
        with _in_our_words():
            answer = self._send("GET", path, query=query, read_seconds=min(seconds, 90) + READ_SECONDS)
            try:
                yield from _events(answer, read)
            finally:
                answer.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Object | None = None,
        content: str = "application/json",
    ) -> Object:
        with _in_our_words():
            answer = self._send(method, path, query=query, body=body, content=content)
            try:
                return cast("Object", orjson.loads(answer.data))
            finally:
                answer.release_conn()

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Object | None = None,
        content: str = "application/json",
        read_seconds: float | None = None,
        accept: str = "application/json",
    ) -> _Answer:
        url = f"{self.server}{path}"
        if query:
            url += "?" + urlencode(dict(query))
        headers = {"Accept": accept, "User-Agent": "gpuaas", **self.authorization()}
        if body is not None:
            headers["Content-Type"] = content
        answer = self._pool.request(
            method,
            url,
            body=None if body is None else json.dumps(body),
            headers=headers,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds or READ_SECONDS),
            preload_content=False,
            redirect=False,
            retries=False,
        )
        if answer.status >= 300:
            try:
                raise refusal(answer.status, _decoded(answer.data), answer.headers.get("Retry-After"))
            finally:
                answer.release_conn()
        return answer

    def authorization(self) -> dict[str, str]:
        keys = self._configuration.api_key
        value = keys.get("authorization") or keys.get("BearerToken")
        return {"Authorization": value} if value else {}


SHARED_MOST = 64


def shared(kubeconfig: str) -> Api:
    """One Api per process and credentials, which reuses its connections. Other credentials, or a fork, get another; the
    least recently used one is dropped."""
    return _shared(os.getpid(), kubeconfig)


@lru_cache(SHARED_MOST)
def _shared(_process: int, kubeconfig: str) -> Api:
    return Api(kubeconfig)


def refusal(status: int, answer: Object, retry_after: str | None = None) -> Exception:
    """The one place that maps an answer of the API server to one of our errors."""
    message = str(answer.get("message") or f"the API server answered {status}")
    causes = [cause.get("reason") for cause in (answer.get("details") or {}).get("causes") or []]
    if status == 401:
        return Unauthorized("the site does not accept the portal's credentials (401)")
    if status == 403 and "NamespaceTerminating" in causes:
        return Unavailable("the site is still deleting the previous namespace of this name", retry_after=2)
    if status == 403 and " cannot " in message:
        return Unauthorized(f"the portal's credentials lack a right at the site: {message}")
    if status == 404:
        return NotFound(message)
    if status == 409:
        return Outdated(f"it was changed concurrently: {message}", retry_after=1)
    if status == 410:
        return Expired(message, retry_after=1)
    if status == 429 or status >= 500:
        seconds = int(retry_after) if retry_after and retry_after.isdigit() else 5
        return Unavailable(
            f"the site is overloaded or failing ({status}): {message}", retry_after=max(seconds, 1)
        )
    if status < 400:
        return Unavailable(f"the site sends the portal elsewhere ({status}), which it does not follow")
    return Permanent(f"the site refuses ({status}): {message}", detail={"status": status})


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except urllib3.exceptions.SSLError as error:
        raise Unauthorized(
            f"the site's certificate does not match the portal's credentials: {error}"
        ) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unavailable(f"the site's API server does not answer: {_short(error)}") from error
    except ValueError as error:
        raise Unavailable(f"the site's answer is not JSON: {_short(error)}") from error


def _short(error: Exception) -> str:
    return str(error).rsplit("object at", maxsplit=1)[-1].split(">: ")[-1][:200]


def _decoded(data: bytes) -> Object:
    try:
        found = orjson.loads(data)
    except ValueError:
        return {"message": data.decode(errors="replace")[:500]}
    return found if isinstance(found, dict) else {"message": str(found)}


def _events(answer: _Answer, read: Callable[[bytes], Object]) -> Iterator[Object]:
    rest = b""
    for chunk in answer.stream(65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(None, lines):
            event = read(line)
            if event["type"] == "ERROR":
                raise refusal(int(event["object"].get("code") or 500), event["object"])
            yield event


def _read_lean(line: bytes) -> Object:
    found: Object = orjson.loads(_unmanaged(line))
    return found


def _unmanaged(line: bytes) -> bytes:
    """Remove metadata.managedFields, which is the last field of metadata. Quotes inside strings are escaped, so neither
    marker can be part of one; if they are not found the line stays as it is."""
    begin = line.find(MANAGED)
    end = line.find(MANAGED_END, begin) if begin >= 0 else -1
    return line if end < 0 else line[:begin] + line[end + 1 :]


def _configuration(kubeconfig: str) -> Configuration:
    """Raises Unusable for anything that is not a kubeconfig, and for one that refers to files or programs."""
    try:
        given = yaml.safe_load(kubeconfig)
    except yaml.YAMLError as error:
        raise Unusable("the credentials are not a kubeconfig: not valid YAML") from error
    if not isinstance(given, dict) or not given.get("clusters"):
        raise Unusable("the credentials are not a kubeconfig: it names no cluster")
    if found := unsafe_keys(given):
        raise Unusable(f"the kubeconfig contains {', '.join(found)}: use {INLINE_KEYS}")
    made = Configuration()
    # one connection for each watch and worker thread that share it
    cast("Any", made).connection_pool_maxsize = CONNECTIONS_KEPT
    try:
        load_kube_config_from_dict(given, client_configuration=made, persist_config=False)
    except (ConfigException, KeyError, TypeError, ValueError) as error:
        raise Unusable(f"the credentials are not a usable kubeconfig: {error}") from error
    return made
