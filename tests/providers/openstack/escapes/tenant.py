"""A member with the credential that the portal issued, and what is in their workspace; spoken by plain HTTP."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import requests
import yaml

from gpuaas.providers.base import Member, WorkspaceSpec
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.providers.openstack.conftest import ref

MICROVERSIONS = {"compute": "compute 2.96", "placement": "placement 1.39"}
SECONDS = 60
Body = dict[str, Any]


@dataclass
class Credential:
    """As it is in the clouds.yaml; a token is made of it when it is first used."""

    document: str
    token: str = ""
    catalog: dict[str, str] = field(default_factory=dict)
    project: str = ""
    user: str = ""

    @property
    def entry(self) -> Body:
        entry: Body = next(iter(yaml.safe_load(self.document)["clouds"].values()))
        return entry

    @property
    def cloud(self) -> str:
        return str(next(iter(yaml.safe_load(self.document)["clouds"])))

    @property
    def auth_url(self) -> str:
        return str(self.entry["auth"]["auth_url"])

    @property
    def identity(self) -> Body:
        auth = self.entry["auth"]
        secret = {"id": auth["application_credential_id"], "secret": auth["application_credential_secret"]}
        return {"methods": ["application_credential"], "application_credential": secret}

    def sign_in(self, **scope: Any) -> requests.Response:
        """A token anew; whatever the answer is."""
        body = {"auth": {"identity": self.identity, **({"scope": scope} if scope else {})}}
        return requests.post(f"{self.auth_url}/auth/tokens", json=body, timeout=SECONDS)

    def call(self, verb: str, service: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        if not self.token:
            self._begin()
        headers = {"X-Auth-Token": self.token, **options.pop("headers", {})}
        if service in MICROVERSIONS:
            headers["OpenStack-API-Version"] = MICROVERSIONS[service]
        return requests.request(
            verb, self.catalog[service] + path, headers=headers, json=body, timeout=SECONDS, **options
        )

    def get(self, service: str, path: str) -> Body:
        answer = self.call("GET", service, path)
        assert answer.ok, answer.text
        found: Body = answer.json()
        return found

    def made(self, service: str, path: str, key: str, body: Body) -> Body:
        answer = self.call("POST", service, path, {key: body})
        assert answer.ok, answer.text
        found: Body = answer.json()
        return dict(found.get(key, found))

    def _begin(self) -> None:
        answer = self.sign_in()
        assert answer.ok, answer.text
        token = answer.json()["token"]
        self.project, self.user = token["project"]["id"], token["user"]["id"]
        self.catalog = {
            service["type"]: endpoint["url"].rstrip("/")
            for service in token["catalog"]
            for endpoint in service["endpoints"]
            if endpoint["interface"] == "public"
        }
        self.catalog["image"] += "/v2"
        self.catalog["network"] += "/v2.0"
        self.token = answer.headers["X-Subject-Token"]


def credential(driver: OpenStackDriver, spec: WorkspaceSpec, member: Member) -> Credential:
    access = driver.issue_access(ref(spec), member, lifetime=timedelta(hours=1))
    made = Credential(access.document)
    made._begin()
    return made


def openstack(who: Credential, lines: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Exit status and output of the plain command-line client for each line, with nothing but a clouds.yaml."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    with tempfile.TemporaryDirectory() as folder:
        clouds = Path(folder) / "clouds.yaml"
        clouds.write_text(who.document)
        environment = {**kept, "OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": who.cloud}
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("client.py"))],
            input="\n".join(json.dumps(line) for line in lines),
            env=environment,
            capture_output=True,
            text=True,
            timeout=50 + 25 * len(lines),
            check=True,
        )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]
