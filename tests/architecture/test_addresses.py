"""Every address that a person may give, and what becomes of it. A new one has to take its place in the table."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import yaml
from django import forms as django_forms
from django.core.management import get_commands, load_command_class

import frontend.forms
from gpuaas.providers.openstack.clusters.settings import KNOWN
from gpuaas.providers.registry import driver_names, site_kind
from tests.architecture.test_house import ROOMS, ROOT, tracked

ADDRESS = re.compile(
    r"url|uri|endpoint|address|server|host|issuer|image|mirror|registry|proxy|webhook|callback|cidr|network|smtp|"
    r"kubeconfig|clouds_yaml|manifest",
    re.IGNORECASE,
)

CALLED = "an operator's; called only through gpuaas/providers/reach.py (tests/providers/test_reach.py)"
SHOWN = "an operator's; written into tenants' kubeconfigs after address_check, never called"
GUEST = "an operator's; a machine or the hub of the site calls it, the portal never"
NAME = "the name or id of something at the site, sent to the site's own API in a body or as a quoted part of a path"
DEPLOYMENT = "whoever runs the portal says it in the environment or on the command line"
PULLED = "a tenant's; the nodes of the site pull it, the portal never calls it"
MOVED = "a tenant's; a mover in the tenant's own namespace or cluster calls it after server_check, the portal never"
NOT_ONE = "no address of the network"

API = {
    "BillingAccountRequest.address": NOT_ONE,
    "ClusterTransferRequest.url": MOVED,
    "DataCredentialRequest.endpoint": MOVED,
    "HostsRequest.hosts": GUEST,
    "JobOrderRequest.image": PULLED,
    "JobRequest.image": PULLED,
    "JobRerunRequest.image": PULLED,
    "MachineActionRequest.image": NAME,
    "MachineRequest.image": NAME,
    "PatchedSiteRequest.endpoint": SHOWN,
    "SiteRequest.endpoint": SHOWN,
    "TransferRequest.url": MOVED,
}
DRIVERS = {
    "kubeconfig": CALLED,
    "clouds_yaml": CALLED,
    "auth_url": CALLED,
    "issuer_url": SHOWN,
    "egress_cidrs": "an operator's; what workspaces may reach, set as a rule at the site",
    "external_network": NAME,
    "check_image": GUEST,
}
FORMS = {
    "AccountForm.address": NOT_ONE,
    "DataCredentialForm.endpoint": MOVED,
    "JobForm.image": PULLED,
    "JobTemplateForm.image": PULLED,
    "MachineForm.image": NAME,
    "RebuildForm.image": NAME,
    "SiteForm.endpoint": SHOWN,
}
TEMPLATES = {"image": NAME, "k3s_url": GUEST, "manifests": GUEST}
COMMANDS = {
    "site_attach.credential.auth_url": CALLED,
    "site_attach.credential.clouds_yaml": CALLED,
    "site_attach.credential.kubeconfig": CALLED,
    "site_attach.endpoint": SHOWN,
    "web.host": DEPLOYMENT,
}
ENVIRONMENT = {
    "GPUAAS_ALLOWED_HOSTS",
    "GPUAAS_BILLING_PROVIDER_ADDRESS",
    "GPUAAS_BROKER_URL",
    "GPUAAS_CHANNELS_URL",
    "GPUAAS_DATABASE_URL",
    "GPUAAS_MAIL_URL",
    "GPUAAS_OIDC_ISSUER",
    "GPUAAS_PUBLIC_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
}


def properties(schema: dict[str, Any]) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield name
        yield from properties(inner)


def test_the_api() -> None:
    schemas = yaml.safe_load((ROOT / "docs/openapi.v1.yaml").read_text("utf-8"))["components"]["schemas"]
    found = {
        f"{name}.{key}"
        for name, schema in schemas.items()
        if "Request" in name
        for key, inner in schema.get("properties", {}).items()
        if ADDRESS.search(key) or inner.get("format") in {"uri", "hostname", "ipv4", "ipv6"}
    }
    assert found == set(API)


def test_the_drivers() -> None:
    kinds = [site_kind(name) for name in driver_names()]
    found = {
        name for kind in kinds for part in (kind.credentials, kind.options or {}) for name in properties(part)
    }
    assert {name for name in found if ADDRESS.search(name)} == set(DRIVERS)


def test_the_templates_of_clusters() -> None:
    assert {key for keys in KNOWN.values() for key in keys if ADDRESS.search(key)} == set(TEMPLATES)


def test_the_pages() -> None:
    modules = [import_module(f"frontend.forms.{one.name}") for one in iter_modules(frontend.forms.__path__)]
    found = {
        f"{made.__name__}.{name}"
        for module in modules
        for made in vars(module).values()
        if isinstance(made, type) and issubclass(made, django_forms.BaseForm)
        for name, field in getattr(made, "base_fields", {}).items()
        if ADDRESS.search(name) or isinstance(field, django_forms.URLField)
    }
    assert found == set(FORMS)


def test_the_commands() -> None:
    ours = [
        name
        for name, app in get_commands().items()
        if str(app).startswith(("gpuaas.", "tenants", "billing", "quotas"))
    ]
    found = {
        f"{name}.{action.dest}"
        for name in ours
        for action in load_command_class(get_commands()[name], name).create_parser("manage.py", name)._actions
        if ADDRESS.search(action.dest)
    }
    assert found == set(COMMANDS)


def test_the_environment() -> None:
    said = re.compile(r'"((?:GPUAAS|OTEL)_[A-Z_]*(?:URL|HOST|ISSUER|ADDRESS|SERVER|PROXY|ENDPOINT)[A-Z_]*)"')
    found = {
        name
        for path in tracked()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in {"gpuaas", "tenants", "billing"}
        for name in said.findall(path.read_text("utf-8"))
    }
    assert found - {"GPUAAS_TEST_DATABASE_URL", "GPUAAS_TEST_HOSTS"} == ENVIRONMENT


CALLERS = re.compile(
    r"^\s*(?:import|from) (requests|urllib3|httpx|aiohttp|http\.client|urllib\.request|smtplib|socket|websockets|"
    r"kubernetes|openstack|keystoneauth1|opentelemetry\.exporter)\b",
    re.MULTILINE,
)
CLIENTS = {
    "gpuaas/providers/reach.py": "the guard itself",
    "gpuaas/environments/pod.py": "socketpair",  # what leads on is the driver's way, as the door's
    "gpuaas/environments/door/process.py": "AF_UNIX",  # where Envoy asks
    "gpuaas/providers/kubeapi/client.py": "pools_guard",
    "gpuaas/providers/kubeapi/channels.py": "addresses_of",
    "gpuaas/providers/kubeapi/forward.py": "opened",  # the types of what channels.py opens
    "gpuaas/providers/kubeapi/programs.py": "opened",
    "gpuaas/providers/openstack/client.py": "session_guard",
    "gpuaas/providers/sandbox/rooms.py": "ServerProtocol",  # it is asked
    "gpuaas/providers/openstack/dry_run.py": "Reading",  # calls through another's
    "gpuaas/core/management/commands/web.py": "fileno",  # it listens at a socket that it is given
    "gpuaas/core/pulse.py": "gethostname",
    "gpuaas/core/scrape.py": "make_server",  # it is called, and calls nobody
    "gpuaas/core/traces.py": "TRACES_ENDPOINT",  # the collector of whoever runs the portal
    "gpuaas/metering/meter.py": "gethostname",
}


PLACES = tuple(f"{ROOT}/{room}/" for room in ROOMS)


def test_who_calls_others() -> None:
    """Only these modules can open a connection of their own; each calls through the guard, or opens none."""
    ours = [path for path in tracked() if path.suffix == ".py" and path.as_posix().startswith(PLACES)]
    found = {p.relative_to(ROOT).as_posix() for p in ours if CALLERS.search(p.read_text("utf-8"))}
    assert found == set(CLIENTS)
    for name, word in CLIENTS.items():
        if word != "the guard itself":
            assert re.search(rf"\b{word}\b", Path(ROOT, name).read_text("utf-8")), name
