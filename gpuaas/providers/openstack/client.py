"""One cloud by openstacksdk: plain JSON in and out, a time limit on every call, and every failure as one of our errors.

Only this module sees exceptions of the SDK. Errors contain no tokens or passwords.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, lru_cache
from typing import Any, cast

import openstack
import requests
import yaml
from keystoneauth1 import exceptions as auth_errors
from openstack import exceptions as sdk_errors
from openstack.connection import Connection

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused, Unauthorized, Unavailable, Unusable
from gpuaas.providers.reach import address_check, session_guard

Object = dict[str, Any]
CALL_SECONDS = 30
MICROVERSIONS = {"compute": "2.96", "placement": "1.39"}
# of paths that are newer than the rest of their service; by path, since it is all that a cached reading passes on
NEWER = {"/default-types/": "3.62"}
PAGE = 500
# Cinder, by its current service type and former ones
BLOCK_STORAGE = frozenset({"block-storage", "volumev3", "volume"})
SHARED_MOST = 64
# words in services' messages for a reached limit
OVER = ("quota", "over a limit", "over the limit", "exceeded")
# accepted keys of a clouds.yaml; any other could name files and programs on the portal's own machine
CLOUD_KEYS = frozenset({"auth", "auth_type", "region_name", "interface", "identity_api_version", "verify"})
# ways to sign in at Keystone itself; others name addresses of their own
AUTH_TYPES = frozenset({"password", "v3password", "token", "v3token", "v3applicationcredential"})


class Cloud:
    """Bound to one credential. Raises only errors of core: Unavailable, Unauthorized, NotFound, QuotaRefused, Permanent."""

    def __init__(self, credentials: Mapping[str, Any]) -> None:
        self._entry = cloud_entry(credentials)

    @cached_property
    def _connection(self) -> Connection:
        with _in_our_words():
            versions = {f"{service}_default_microversion": each for service, each in MICROVERSIONS.items()}
            options: Object = {"api_timeout": CALL_SECONDS, **versions, **self._entry}
            made = openstack.connect(load_yaml_config=False, load_envvars=False, app_name="gpuaas", **options)
            session_guard(cast("Any", made.session).session)
            return made

    @cached_property
    def key(self) -> str:
        """Identifies the cloud and the credentials without revealing them."""
        return hashlib.sha256(json.dumps(self._entry, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def auth_url(self) -> str:
        return str(self._entry["auth"]["auth_url"])

    @cached_property
    def region(self) -> str:
        """As the credentials name it, or else the only one with a Nova. Raises Unusable if there are several: each is a site of
        its own, with limits and hosts of its own."""
        if named := self._entry.get("region_name"):
            return str(named)
        where = {"service_type": "compute", "interface": self._entry.get("interface") or "public"}
        found = self._access.service_catalog.get_endpoints_data(**where).values()
        regions = sorted({str(each.region_name or "") for endpoints in found for each in endpoints})
        if len(regions) > 1:
            raise Unusable(
                f"the cloud has several regions ({', '.join(regions)}): name one in the credentials"
            )
        return regions[0] if regions else ""

    @property
    def transport(self) -> Object:
        """How to reach the cloud, for any account."""
        return {key: self._entry[key] for key in ("region_name", "interface", "verify") if key in self._entry}

    def derived(self, purpose: str) -> str:
        """A password derived from this credential, so that nobody has to store it."""
        key = json.dumps(self._entry["auth"], sort_keys=True).encode()
        return hmac.new(key, purpose.encode(), hashlib.sha256).hexdigest()

    @property
    def services(self) -> frozenset[str]:
        """Types of services in the catalog for our region."""
        where = {"interface": self._entry.get("interface") or "public", "region_name": self.region or None}
        found = self._access.service_catalog.get_endpoints(**where)
        return frozenset(kind for kind, endpoints in found.items() if endpoints)

    @property
    def has_volumes(self) -> bool:
        """Whether the cloud has Cinder; many do not."""
        return bool(self.services & BLOCK_STORAGE)

    @property
    def user_id(self) -> str:
        """Of our account."""
        return str(self._access.user_id)

    @property
    def roles(self) -> frozenset[str]:
        """Of our account, in the project that it signed in to."""
        return frozenset(self._access.role_names)

    def own_credential(self) -> Object | None:
        """Our application credential; None if we use a password."""
        key = self._entry["auth"].get("application_credential_id")
        path = f"/users/{self.user_id}/application_credentials/{key}"
        return self.get("identity", path)["application_credential"] if key else None

    def newest(self, service: str) -> str:
        """The newest microversion of a service; "" if it has none."""
        with _in_our_words():
            found = self._adapter(service).get_endpoint_data()
        newest = found.max_microversion if found is not None else None
        return ".".join(map(str, newest)) if newest else ""

    def server_time(self) -> datetime | None:
        """Keystone's clock, to the second."""
        with _in_our_words():
            answer = self._adapter("identity").request("/", "GET", raise_exc=False)
        date = answer.headers.get("Date")
        return parsedate_to_datetime(date) if date else None

    @property
    def own_project_id(self) -> str:
        """The project that we signed in to; "" if none."""
        return str(self._access.project_id or "")

    @property
    def _access(self) -> Any:
        """Our token's data; the session renews it when it expires."""
        with _in_our_words():
            session: Any = self._connection.session
            return session.auth.get_access(session)

    def get(self, service: str, path: str, **query: Any) -> Object:
        return self._call("GET", service, path, params=query)

    def find(self, service: str, path: str, **query: Any) -> Object | None:
        """None if it does not exist."""
        try:
            return self.get(service, path, **query)
        except NotFound:
            return None

    def items(self, service: str, path: str, key: str, **query: Any) -> list[Object]:
        """A whole collection; services page by marker. Raises Permanent if the cloud gives only a part of it."""
        found: list[Object] = []
        while True:
            page = self.get(service, path, **query)
            rows: list[Object] = page[key]
            found += rows
            if not rows or not _has_next(page, key):
                _whole_require(page, path)
                return found
            query = {**query, "marker": rows[-1]["id"]}

    def post(self, service: str, path: str, body: Object) -> Object:
        return self._call("POST", service, path, json=body)

    def put(self, service: str, path: str, body: Object | None = None) -> Object:
        return self._call("PUT", service, path, json=body)

    def patch(self, service: str, path: str, body: Object | list[Object], *, kind: str = "") -> Object:
        """kind: the body's content type, if it is not plain JSON."""
        headers = {"headers": {"Content-Type": kind}} if kind else {}
        return self._call("PATCH", service, path, json=body, **headers)

    def delete(self, service: str, path: str) -> bool:
        """False if it was already gone."""
        try:
            self._call("DELETE", service, path)
        except NotFound:
            return False
        return True

    def close(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    def _call(self, method: str, service: str, path: str, **options: Any) -> Object:
        for start, version in NEWER.items():
            if path.startswith(start):
                options["microversion"] = version
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
        adapter = getattr(self._connection, adapters[service])
        if service != "identity":
            adapter.region_name = self.region or None
        return adapter


def shared(credentials: Mapping[str, Any]) -> Cloud:
    """One Cloud per process and credentials, which reuses its token and catalog. Other credentials, or a fork, get another;
    the least recently used one is dropped."""
    return _shared(os.getpid(), json.dumps(dict(credentials), sort_keys=True))


@lru_cache(SHARED_MOST)
def _shared(_process: int, credentials: str) -> Cloud:
    return Cloud(json.loads(credentials))


def cloud_entry(credentials: Mapping[str, Any]) -> Object:
    """One cloud, from a clouds.yaml or an application credential. Raises Unusable for anything else."""
    if any(key.startswith("application_credential") for key in credentials):
        entry = _typed_entry(credentials)
    else:
        entry = _written_entry(credentials)
    try:
        address_check(str(entry["auth"].get("auth_url") or ""))
    except Unusable as error:
        raise Unusable(f"the cloud's auth_url: {error.message}") from error
    if region := credentials.get("region_name"):
        entry["region_name"] = str(region)
    return entry


def _typed_entry(credentials: Mapping[str, Any]) -> Object:
    names = ("application_credential_id", "application_credential_secret")
    if not all(credentials.get(name) and isinstance(credentials[name], str) for name in names):
        raise Unusable("an application credential needs an id and a secret")
    own = {name: credentials[name] for name in names}
    auth = {"auth_url": str(credentials.get("auth_url") or ""), **own}
    return {"auth_type": "v3applicationcredential", "auth": auth, "identity_api_version": "3"}


def _written_entry(credentials: Mapping[str, Any]) -> Object:
    """Refuses other keys, and a path to a certificate: they name files on the portal's own machine."""
    text, wanted = credentials.get("clouds_yaml"), str(credentials.get("cloud") or "")
    try:
        given = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError as error:
        raise Unusable("the credentials are not a clouds.yaml: not valid YAML") from error
    clouds = given.get("clouds") if isinstance(given, dict) else None
    if not isinstance(clouds, dict) or not clouds:
        raise Unusable("the credentials are not a clouds.yaml: it names no cloud")
    if not wanted and len(clouds) > 1:
        raise Unusable(f"the clouds.yaml names several clouds ({', '.join(sorted(clouds))}): choose one")
    entry = clouds.get(wanted) if wanted else next(iter(clouds.values()))
    if not isinstance(entry, dict) or not isinstance(entry.get("auth"), dict):
        raise Unusable(f"the clouds.yaml has no cloud {wanted!r} with a section auth")
    if not isinstance(entry.get("verify", True), bool):
        raise Unusable(
            "verify must be true or false: the portal's machine must already trust the certificate authority"
        )
    if entry.get("auth_type", "password") not in AUTH_TYPES:
        raise Unusable(f"the cloud's auth_type must be one of {', '.join(sorted(AUTH_TYPES))}")
    foreign = sorted(set(entry) - CLOUD_KEYS)
    if foreign:
        raise Unusable(
            f"the cloud has {', '.join(foreign)}: only {', '.join(sorted(CLOUD_KEYS))} are accepted"
        )
    return dict(entry)


def refusal(status: int, message: str, retry_after: str | None = None) -> Exception:
    """The one place that maps an answer of the cloud to one of our errors."""
    lowered = message.lower()
    if status == 401:
        return Unauthorized("the cloud does not accept the portal's credentials (401)")
    if status in (403, 409, 413) and any(words in lowered for words in OVER):
        return QuotaRefused(message)
    if status == 403:
        return Unauthorized(f"the portal's credentials lack a right at the cloud: {message}")
    if status == 404:
        return NotFound(message)
    if status == 409 and ("vm_state" in lowered or "is locked" in lowered):
        return Permanent(f"the cloud refuses: {message}", detail={"status": status})
    if status == 409:
        return Unavailable(f"the cloud is busy with it: {message}", retry_after=2)
    if status == 501:
        return Permanent(f"the cloud cannot do this: {message}", detail={"status": status})
    if status == 429 or status >= 500:
        seconds = int(retry_after) if retry_after and retry_after.isdigit() else 5
        return Unavailable(
            f"the cloud is overloaded or failing ({status}): {message}",
            retry_after=max(seconds, 1),
            detail={"status": status},
        )
    return Permanent(f"the cloud refuses ({status}): {message}", detail={"status": status})


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except (auth_errors.Unauthorized, auth_errors.AuthPluginException) as error:
        raise Unauthorized("the cloud does not accept the portal's credentials") from error
    except auth_errors.EndpointNotFound as error:
        raise Unavailable(f"the cloud's catalog lacks this service: {error}") from error
    except auth_errors.NotFound as error:
        # raised while signing in: the application credential no longer exists
        raise Unauthorized("the cloud no longer knows these credentials") from error
    except auth_errors.HttpError as error:
        raise refusal(int(error.http_status or 500), str(error.message)) from error
    except sdk_errors.HttpException as error:
        raise refusal(int(error.status_code or 500), str(error.details or error.message)) from error
    except (auth_errors.ClientException, sdk_errors.SDKException, requests.RequestException) as error:
        raise Unavailable(f"the cloud does not answer: {type(error).__name__}") from error


def _whole_require(page: Object, path: str) -> None:
    """What is missing in a list would count as gone."""
    if page.get("truncated"):
        raise Permanent(
            f"the cloud's Keystone cuts off its list of {path.strip('/')}: an operator of the cloud must raise or remove list_limit in "
            "keystone.conf"
        )


def _has_next(page: Object, key: str) -> bool:
    """Each service says so in another way: Glance, Keystone, and the others."""
    if page.get("next") or (page.get("links") or {}).get("next"):
        return True
    links = page.get(f"{key}_links") or []
    return any(link.get("rel") == "next" for link in links)


def _message(answer: requests.Response) -> str:
    """OpenStack's services format errors in three ways."""
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
