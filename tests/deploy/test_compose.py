"""The compose file: as the specification's own schema has it, with commands and variables that exist."""

import json
import re
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.embedded.environment import ROOT
from tests.deploy.installed import taken_by_the_portal

FOLDER = ROOT / "deploy" / "compose"
SPECIFICATION = "github.com/compose-spec/compose-go/v2@v2.9.1"  # a Go module that has the schema as a file
PROCESSES = {"web", "worker", "worker-slow", "scheduler", "meter", "door", "backup"}
VARIABLE = re.compile(r"^#?([A-Z_]+)=", re.MULTILINE)
READ = re.compile(r'"((?:GPUAAS|OTEL)_[A-Z_]+)"')


def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    return content


def variables_that_are_read() -> set[str]:
    places = [
        ROOT / "tenants/signin.py",
        *(ROOT / f"gpuaas/settings/{name}.py" for name in ("base", "door", "production")),
    ]
    return {name for path in places for name in READ.findall(path.read_text(encoding="utf-8"))}


@pytest.mark.skipif(not shutil.which("go"), reason="the specification is fetched as a Go module")
def test_it_is_as_the_specification_has_it() -> None:
    done = subprocess.run(
        ["go", "mod", "download", "-json", SPECIFICATION], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    schema = json.loads(
        Path(json.loads(done.stdout)["Dir"], "schema/compose-spec.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator(schema).validate(compose())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"services": {"web": {"comand": "web"}}})


def test_every_process_is_there_and_its_command_is_one_that_the_program_takes() -> None:
    services = compose()["services"]
    assert set(services) == {*PROCESSES, "proxy", "migrate", "database", "broker"}
    for name in (*PROCESSES, "migrate"):
        assert services[name]["command"][0] == name.partition("-")[0]
        taken_by_the_portal(services[name]["command"])


def test_no_process_starts_before_the_tables_are_there() -> None:
    services = compose()["services"]
    for name in PROCESSES:
        waits = {other: on["condition"] for other, on in services[name]["depends_on"].items()}
        assert waits == {"migrate": "service_completed_successfully", "broker": "service_healthy"}
    assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert services["migrate"]["restart"] == "no"
    assert all(services[name]["healthcheck"]["test"] for name in ("database", "broker", "web"))
    # while it makes the database, the image runs a server that only its own socket reaches
    assert "--host" in services["database"]["healthcheck"]["test"]


def test_the_portal_runs_read_only_and_without_rights() -> None:
    for name in (*PROCESSES, "migrate"):
        service = compose()["services"][name]
        assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], "/tmp")
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_archives_are_made_where_they_are_asked_for_and_only_there_expected() -> None:
    services = compose()["services"]
    backup, folder = services["backup"], services["backup"]["command"][1]
    assert backup["profiles"] == ["backup"]
    assert backup["volumes"] == [f"./backups:{folder}"]
    assert services["web"]["environment"]["GPUAAS_BACKUPS_EXPECTED"] == "${GPUAAS_BACKUPS_EXPECTED:-false}"


def test_no_secret_stands_in_it_and_every_variable_is_one_that_the_portal_reads() -> None:
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    assert "password" not in text.lower().replace("database_password", "").replace("postgres_password", "")
    given = set(compose()["services"]["web"]["environment"])
    example = set(VARIABLE.findall((ROOT / "deploy/portal.env.example").read_text(encoding="utf-8")))
    assert (given | example) - {
        "DATABASE_PASSWORD",
        "PORTAL_HOST",
        "COMPOSE_PROFILES",
    } <= variables_that_are_read()
    required = {"GPUAAS_SECRET_KEY", "GPUAAS_ENCRYPTION_KEYS", "GPUAAS_ALLOWED_HOSTS", "GPUAAS_PUBLIC_URL"}
    assert required | {"GPUAAS_DATABASE_URL", "GPUAAS_BROKER_URL"} <= example


def test_the_one_who_is_trusted_is_the_proxy_and_only_it_and_the_door_are_reached_from_outside() -> None:
    services = compose()["services"]
    (network,) = compose()["networks"]["default"]["ipam"]["config"]
    address = services["proxy"]["networks"]["default"]["ipv4_address"]
    assert (
        services["web"]["environment"]["GPUAAS_TRUSTED_PROXIES"] == f"${{GPUAAS_TRUSTED_PROXIES:-{address}}}"
    )
    assert ip_address(address) in ip_network(network["subnet"])
    assert address != network["gateway"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy", "door"]
