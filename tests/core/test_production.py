"""The production settings, as a process of their own meets them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

ROOT = Path(__file__).resolve().parents[2]
SAFE = {
    "DJANGO_SETTINGS_MODULE": "gpuaas.settings.production",
    "GPUAAS_SECRET_KEY": "a secret key of more than thirty-two characters",
    "GPUAAS_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "GPUAAS_ALLOWED_HOSTS": "gpu.example.org",
    "GPUAAS_PUBLIC_URL": "https://gpu.example.org",
    "GPUAAS_DATABASE_URL": "postgres://portal:secret-word@db.example.org/gpuaas",
    "GPUAAS_BROKER_URL": "redis://broker.example.org/0",
}


def start(**changes: str | None) -> subprocess.CompletedProcess[str]:
    """The web process's entry, imported with these variables only."""
    return run("import gpuaas.asgi", changes)


def run(code: str, changes: Mapping[str, str | None]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUAAS_", "DJANGO_"))}
    wanted = {name: value for name, value in {**SAFE, **changes}.items() if value is not None}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**kept, **wanted},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_safe_values_start() -> None:
    done = start()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"GPUAAS_SECRET_KEY": None}, "GPUAAS_SECRET_KEY"),
        ({"GPUAAS_ALLOWED_HOSTS": "*"}, "GPUAAS_ALLOWED_HOSTS"),
        ({"GPUAAS_DEBUG": "true"}, "GPUAAS_DEBUG"),
        ({"GPUAAS_TRUSTED_PROXIES": "*"}, "GPUAAS_TRUSTED_PROXIES"),
        ({"GPUAAS_DATABASE_URL": "mysql://portal:secret-word@db.example.org/gpuaas"}, "GPUAAS_DATABASE_URL"),
    ],
    ids=lambda value: (
        "-".join(f"{k}={v}" for k, v in value.items())[:40] if isinstance(value, dict) else value
    ),
)
def test_an_unsafe_value_stops_the_start_by_name(changes: dict[str, str | None], named: str) -> None:
    done = start(**changes)
    assert done.returncode != 0
    assert named in done.stderr.splitlines()[-1]
    assert "secret-word" not in done.stderr


def test_secrets_come_from_files(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SAFE["GPUAAS_SECRET_KEY"] + "\n", encoding="utf-8")
    assert start(GPUAAS_SECRET_KEY=None, GPUAAS_SECRET_KEY_FILE=str(path)).returncode == 0
    both = start(GPUAAS_SECRET_KEY_FILE=str(path))
    assert "not both" in both.stderr.splitlines()[-1]


def test_prometheus_asks_a_process_itself_without_tls() -> None:
    """Pages are led to https."""
    code = """
import django
django.setup()
from django.test import Client
client = Client(headers={"host": "gpu.example.org"})
print([client.get(path).status_code for path in ("/metrics", "/metrics/portal", "/")])
"""
    done = run(code, {"GPUAAS_METRICS_TOKEN": "token"})
    assert done.stdout.strip() == "[401, 401, 301]", done.stderr


def test_https_is_what_the_proxy_says_that_is_trusted() -> None:
    code = """
import django
django.setup()
from django.test import Client
client = Client(headers={"host": "gpu.example.org", "x-forwarded-proto": "https"}, REMOTE_ADDR="10.0.0.1")
answer = client.get("/accounts/signup/")
print(answer.status_code, answer.headers.get("Strict-Transport-Security", "")[:8])
"""
    trusting = run(code, {"GPUAAS_TRUSTED_PROXIES": "10.0.0.0/24"})
    assert trusting.stdout.strip() == "200 max-age=", trusting.stderr
    assert run(code, {}).stdout.strip() == "301"


def test_beside_a_door_pages_of_tenants_set_no_cookie_of_the_portal() -> None:
    """A page at `x.apps.example.org` may set cookies for all hosts of `example.org`, but none of these names; a message that somebody
    else was told would else be shown, with the button that undoes it."""
    code = """
import django
django.setup()
from django.conf import settings
from django.contrib.messages.storage import default_storage
from django.http import HttpRequest, HttpResponse
request, answer = HttpRequest(), HttpResponse()
request.session = {}
found = default_storage(request)
found.add(25, "Changed.", "/undo/")
found.update(answer)
print(settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, *answer.cookies)
print([(each["secure"], each["path"], each["domain"]) for each in answer.cookies.values()])
"""
    names, kept = run(code, {"GPUAAS_DOOR_DOMAIN": "apps.example.org"}).stdout.splitlines()
    assert names.split() == ["__Host-sessionid", "__Host-csrftoken", "__Host-messages"]
    assert kept == "[(True, '/', '')]"


def test_a_connection_has_a_bound_of_idling_and_plans_what_is_prepared_once() -> None:
    """A paused host hangs in its transaction: others would wait for its locks until the network gives it up, after hours."""
    from deploy.embedded import environment

    code = (
        "import django; django.setup()\n"
        "from django.db import connection\n"
        "with connection.cursor() as cursor:\n"
        "    for name in ('idle_in_transaction_session_timeout', 'plan_cache_mode'):\n"
        "        cursor.execute(f'SHOW {name}')\n"
        "        print(cursor.fetchone()[0])\n"
        "connection.close_pool()"
    )
    shown = run(code, {"GPUAAS_DATABASE_URL": environment.test_database_url()})
    assert shown.stdout.split() == ["1min", "force_generic_plan"], shown.stderr
