"""One cloud by openstacksdk: plain JSON in and out, a time limit on every call, and every failure in our words.

Nothing but this module sees an exception of the SDK. What a tenant or a person may not know (tokens, passwords) is in none.
"""

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

import openstack
import requests
import yaml
from keystoneauth1 import exceptions as auth_errors
from openstack import exceptions as sdk_errors
from openstack.connection import Connection

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused, Unauthorized, Unavailable

Object = dict[str, Any]
CALL_SECONDS = 30
MICROVERSIONS = {"compute": "2.96", "placement": "1.39"}
PAGE = 500
# Cinder, by its kind's name of today and those of before
BLOCK_STORAGE = frozenset({"block-storage", "volumev3", "volume"})
SHARED_MOST = 64
# how services say that a limit is reached
OVER = ("quota", "over a limit", "over the limit", "exceeded")
# what is taken from a clouds.yaml; anything else could name files and programs of the portal's own machine
CLOUD_KEYS = frozenset({"auth", "auth_type", "region_name", "interface", "identity_api_version", "verify"})


class Cloud:
    """Bound to one credential. Raises only errors of core: Unavailable, Unauthorized, NotFound, QuotaRefused, Permanent."""

    def __init__(self, credentials: Mapping[str, Any]) -> None:
        self._entry = cloud_entry(credentials)

    @cached_property
    def _connection(self) -> Connection:
        with _in_our_words():
            versions = {f"{service}_default_microversion": each for service, each in MICROVERSIONS.items()}
            options: Object = {"api_timeout": CALL_SECONDS, **versions, **self._entry}
            return openstack.connect(load_yaml_config=False, load_envvars=False, app_name="gpuaas", **options)

    @cached_property
    def key(self) -> str:
        """Tells clouds and credentials apart, and gives none away."""
        return hashlib.sha256(json.dumps(self._entry, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def auth_url(self) -> str:
        return str(self._entry["auth"]["auth_url"])

    @property
    def region(self) -> str:
        return str(self._entry.get("region_name") or "")

    @property
    def transport(self) -> Object:
        """How the cloud is reached, whoever signs in."""
        return {key: self._entry[key] for key in ("region_name", "interface", "verify") if key in self._entry}

    def derived(self, purpose: str) -> str:
        """A password that only who has this credential can work out, and that nobody has to store."""
        key = json.dumps(self._entry["auth"], sort_keys=True).encode()
        return hmac.new(key, purpose.encode(), hashlib.sha256).hexdigest()

    @property
    def services(self) -> frozenset[str]:
        """Kinds of services that the catalog names for our region."""
        where = {"interface": self._entry.get("interface") or "public", "region_name": self.region or None}
        found = self._access.service_catalog.get_endpoints(**where)
        return frozenset(kind for kind, endpoints in found.items() if endpoints)

    @property
    def has_volumes(self) -> bool:
        """Whether there is a Cinder; many a cloud has none."""
        return bool(self.services & BLOCK_STORAGE)

    @property
    def user_id(self) -> str:
        """Of the account that we are."""
        return str(self._access.user_id)

    @property
    def roles(self) -> frozenset[str]:
        """Of the account that we are, where we have signed in."""
        return frozenset(self._access.role_names)

    def own_credential(self) -> Object | None:
        """The application credential that we are; None for a password."""
        key = self._entry["auth"].get("application_credential_id")
        path = f"/users/{self.user_id}/application_credentials/{key}"
        return self.get("identity", path)["application_credential"] if key else None

    def newest(self, service: str) -> str:
        """The newest microversion that a service has; "" where it has none."""
        with _in_our_words():
            found = self._adapter(service).get_endpoint_data()
        newest = found.max_microversion if found is not None else None
        return ".".join(map(str, newest)) if newest else ""

    def server_time(self) -> datetime | None:
        """Keystone's clock, to the second."""
        with _in_our_words():
            answer = self._adapter("identity").request("/", "GET", raise_exc=False)
        told = answer.headers.get("Date")
        return parsedate_to_datetime(told) if told else None

    @property
    def own_project_id(self) -> str:
        """The project for which we have signed in; "" where it is none."""
        return str(self._access.project_id or "")

    @property
    def _access(self) -> Any:
        """What our token says; asked for anew by the session when it runs out."""
        with _in_our_words():
            session: Any = self._connection.session
            return session.auth.get_access(session)

    def get(self, service: str, path: str, **query: Any) -> Object:
        return self._call("GET", service, path, params=query)

    def find(self, service: str, path: str, **query: Any) -> Object | None:
        """None where there is none."""
        try:
            return self.get(service, path, **query)
        except NotFound:
            return None

    def items(self, service: str, path: str, key: str, **query: Any) -> list[Object]:
        """A whole collection; Nova, Neutron and Glance page by marker."""
        found: list[Object] = []
        while True:
            page = self.get(service, path, **query)
            rows: list[Object] = page[key]
            found += rows
            if not rows or not _has_next(page, key):
                return found
            query = {**query, "marker": rows[-1]["id"]}

    def post(self, service: str, path: str, body: Object) -> Object:
        return self._call("POST", service, path, json=body)

    def put(self, service: str, path: str, body: Object | None = None) -> Object:
        return self._call("PUT", service, path, json=body)

    def patch(self, service: str, path: str, body: Object | list[Object], *, kind: str = "") -> Object:
        """kind: the body's content type, where it is not plain JSON."""
        headers = {"headers": {"Content-Type": kind}} if kind else {}
        return self._call("PATCH", service, path, json=body, **headers)

    def delete(self, service: str, path: str) -> bool:
        """False where it was gone already."""
        try:
            self._call("DELETE", service, path)
        except NotFound:
            return False
        return True

    def close(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    def _call(self, method: str, service: str, path: str, **options: Any) -> Object:
        with _in_our_words():
            answer = self._adapter(service).request(path, method, raise_exc=False, **options)
        if answer.status_code >= 400:
            raise refusal(answer.status_code, _message(answer), answer.headers.get("Retry-After"))
        found = _decoded(answer)
        return found if isinstance(found, dict) else {}

    def _adapter(self, service: str) -> Any:
        adapters = {
            "identity": "identity",
            "compute": "compute",
            "placement": "placement",
            "network": "network",
            "image": "image",
            "volume": "block_storage",
        }
        return getattr(self._connection, adapters[service])


_SHARED: dict[tuple[int, str], Cloud] = {}
_SHARED_LOCK = threading.Lock()


def shared(credentials: Mapping[str, Any]) -> Cloud:
    """One for all of a process that use these credentials: its token and what it knows of the cloud's addresses are kept.
    Other credentials, or a fork, get another; the one that was used least recently goes."""
    made = Cloud(credentials)
    key = (os.getpid(), made.key)
    with _SHARED_LOCK:
        cloud = _SHARED.pop(key, made)
        _SHARED[key] = cloud
        while len(_SHARED) > SHARED_MOST:
            del _SHARED[next(iter(_SHARED))]
    return cloud


def cloud_entry(credentials: Mapping[str, Any]) -> Object:
    """One cloud, by a clouds.yaml or by an application credential. Raises Unauthorized for what is none."""
    if any(key.startswith("application_credential") for key in credentials):
        entry = _typed_entry(credentials)
    else:
        entry = _written_entry(credentials)
    if not str(entry["auth"].get("auth_url") or "").startswith(("http://", "https://")):
        raise Unauthorized("the cloud's auth_url is no address")
    if region := credentials.get("region_name"):
        entry["region_name"] = str(region)
    return entry


def _typed_entry(credentials: Mapping[str, Any]) -> Object:
    names = ("application_credential_id", "application_credential_secret")
    if not all(credentials.get(name) and isinstance(credentials[name], str) for name in names):
        raise Unauthorized("an application credential is an id and a secret")
    own = {name: credentials[name] for name in names}
    auth = {"auth_url": str(credentials.get("auth_url") or ""), **own}
    return {"auth_type": "v3applicationcredential", "auth": auth, "identity_api_version": "3"}


def _written_entry(credentials: Mapping[str, Any]) -> Object:
    """With only what is harmless: other keys, and a path to a certificate, name files of the portal's own machine."""
    text, wanted = credentials.get("clouds_yaml"), str(credentials.get("cloud") or "")
    try:
        given = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError as error:
        raise Unauthorized("the credentials are no clouds.yaml: not valid YAML") from error
    clouds = given.get("clouds") if isinstance(given, dict) else None
    if not isinstance(clouds, dict) or not clouds:
        raise Unauthorized("the credentials are no clouds.yaml: it names no cloud")
    if not wanted and len(clouds) > 1:
        raise Unauthorized(
            f"the clouds.yaml names several clouds ({', '.join(sorted(clouds))}): say which one"
        )
    entry = clouds.get(wanted) if wanted else next(iter(clouds.values()))
    if not isinstance(entry, dict) or not isinstance(entry.get("auth"), dict):
        raise Unauthorized(f"the clouds.yaml has no cloud {wanted!r} with a part auth")
    if not isinstance(entry.get("verify", True), bool):
        raise Unauthorized(
            "verify is true or false: the portal's machine has to know the authority by itself"
        )
    foreign = sorted(set(entry) - CLOUD_KEYS)
    if foreign:
        raise Unauthorized(f"the cloud has {', '.join(foreign)}: give {', '.join(sorted(CLOUD_KEYS))} only")
    return dict(entry)


def refusal(status: int, message: str, retry_after: str | None = None) -> Exception:
    """The one place where an answer of the cloud becomes an error of ours."""
    lowered = message.lower()
    if status == 401:
        return Unauthorized("the cloud does not accept our credentials (401)")
    if status in (403, 409, 413) and any(words in lowered for words in OVER):
        return QuotaRefused(message)
    if status == 403:
        return Unauthorized(f"our credentials lack a right at the cloud: {message}")
    if status == 404:
        return NotFound(message)
    if status == 409 and ("vm_state" in lowered or "is locked" in lowered):
        return Permanent(f"the cloud refuses: {message}", detail={"status": status})
    if status == 409:
        return Unavailable(f"the cloud is at work on it: {message}", retry_after=2)
    if status == 429 or status >= 500:
        seconds = int(retry_after) if retry_after and retry_after.isdigit() else 5
        return Unavailable(f"the cloud is busy or broken ({status}): {message}", retry_after=max(seconds, 1))
    return Permanent(f"the cloud refuses ({status}): {message}", detail={"status": status})


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except (auth_errors.Unauthorized, auth_errors.AuthPluginException) as error:
        raise Unauthorized("the cloud does not accept our credentials") from error
    except auth_errors.EndpointNotFound as error:
        raise Unavailable(f"the cloud's catalog does not name this service: {error}") from error
    except auth_errors.NotFound as error:
        # of signing in, not of a call: an application credential that is gone
        raise Unauthorized("the cloud does not know these credentials any more") from error
    except auth_errors.HttpError as error:
        raise refusal(int(error.http_status or 500), str(error.message)) from error
    except sdk_errors.HttpException as error:
        raise refusal(int(error.status_code or 500), str(error.details or error.message)) from error
    except (auth_errors.ClientException, sdk_errors.SDKException, requests.RequestException) as error:
        raise Unavailable(f"the cloud does not answer: {type(error).__name__}") from error


def _has_next(page: Object, key: str) -> bool:
    if page.get("next"):
        return True
    links = page.get(f"{key}_links") or []
    return any(link.get("rel") == "next" for link in links)


def _message(answer: requests.Response) -> str:
    """OpenStack's services word their errors in three ways."""
    found = _decoded(answer)
    if isinstance(found, dict):
        for part in (found.get("error"), found.get("NeutronError"), *found.values()):
            if isinstance(part, dict) and part.get("message"):
                return str(part["message"])[:500]
            if isinstance(part, list) and part and isinstance(part[0], dict):
                return str(part[0].get("detail") or part[0].get("title") or part[0])[:500]
    return f"the answer was {answer.status_code}"


def _decoded(answer: requests.Response) -> Any:
    try:
        return answer.json() if answer.content else {}
    except ValueError:
        return {}
