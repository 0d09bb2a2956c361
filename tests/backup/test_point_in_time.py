"""The portal's own database, lost and recovered to an instant by the very commands of the runbook."""

import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from deploy.embedded.postgres import PROGRAMS
from gpuaas.backup.services import backup_make, restore
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.backup.servers import USER, asked, portal_on, program, start
from tests.backup.stage import bill, documents, rated
from tests.factories.quotas import counters_must_match
from tests.workspaces.stage import ready

pytestmark = pytest.mark.django_db(transaction=True)
RUNBOOK = Path(__file__).resolve().parents[2] / "docs/operators/point-in-time.md"
BLOCK = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
LOST = ("billing_invoice", "billing_invoiceline", "metering_usageinterval", "workspaces_workspace")


def runbook(home: Path) -> list[str]:
    """Its blocks, with the folders of the test: settings, base backup, recovery, and what follows."""
    found = BLOCK.findall(RUNBOOK.read_text("utf-8"))
    blocks = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]
    return [re.sub(r"(?<![\w/])/(wal|base|data)/", rf"{home}/\1/", block) for block in blocks]


def typed(home: Path, block: str) -> None:
    """As the server's user, at a shell."""
    commands = re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
    as_root = os.geteuid() == 0
    with (home / "log").open("ab") as log:
        subprocess.run(
            ["bash", "-e", "-c", commands],
            check=True,
            cwd=home,
            user=USER if as_root else None,
            group=pwd.getpwnam(USER).pw_gid if as_root else None,
            env={
                "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
                "LC_ALL": "C",
                "PGHOST": str(home),
                "PGUSER": "postgres",
            },
            stdout=log,
            stderr=log,
        )


def served(home: Path, settings: str) -> None:
    """A server with the runbook's settings, and an empty database for the portal."""
    data = f"--pgdata={home / 'first'}"
    program(home, "initdb", data, "--username=postgres", "--auth=trust", "--encoding=UTF8")
    with (home / "first" / "postgresql.conf").open("a") as file:
        file.write(f"{settings}listen_addresses = ''\nunix_socket_directories = '{home}'\n")
    start(home, "first")
    asked(home, "CREATE DATABASE portal", "SELECT 1")


def catastrophe(home: Path) -> None:
    """Rows are deleted past every guard of the portal, and the disk is lost."""
    with psycopg.connect(f"host={home} user=postgres dbname=portal", autocommit=True) as there:
        there.execute("SET session_replication_role = replica")
        for name in LOST:
            there.execute(f"DELETE FROM {name}".encode())
    program(home, "pg_ctl", f"--pgdata={home / 'first'}", "--mode=fast", "stop")  # archives what is left
    shutil.rmtree(home / "first")


def made_safe(afterwards: str, site: Site) -> None:
    """By the runbook's last command."""
    assert Site.objects.get().confirmed
    (command,) = re.findall(r"manage\.py (.+)", afterwards)
    call_command(*command.split())
    call_command("check", databases=["default"])
    counters_must_match()
    assert not Site.objects.get().confirmed
    assert AuditEntry.objects.get(action="backup.recover").target_name == site.slug


def test_the_portal_is_recovered_to_an_instant(
    folder: Path,
    home: Path,
    as_alice: Actor,
    as_olga: Actor,
    project: Project,
    site: Site,
    h100: Flavor,
    alice: User,
) -> None:
    settings, base, recovery, afterwards = runbook(home)
    kept = ready(as_alice, project, site, name="kept")
    path = backup_make(folder=folder)
    served(home, settings)
    with portal_on(home, "portal"):
        restore(path=path)
        Site.objects.update(confirmed=True)
    typed(home, base)
    with portal_on(home, "portal"):
        bill(as_olga, project, h100, alice)
        wanted, now = documents(), clock.now()
        owed = rated(now)
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()::text")
            (instant,) = cursor.fetchone()
    assert wanted
    assert owed
    catastrophe(home)
    (named,) = re.findall(r"recovery_target_time = '([^']+)'", recovery)
    typed(home, recovery.replace(named, instant))
    with portal_on(home, "portal"):
        assert documents() == wanted
        assert rated(now) == owed
        made_safe(afterwards, site)
        assert Workspace.objects.get(pk=kept.pk).state == "ready"
        assert documents() == wanted
