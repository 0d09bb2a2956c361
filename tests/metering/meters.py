"""`manage.py meter` as a process on the tests' database."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from django.db import connection

ROOT = Path(__file__).parent.parent.parent
Started = list[subprocess.Popen[bytes]]


def database_here() -> str:
    """The test's own database as a URL."""
    given = connection.settings_dict
    host, port = quote(str(given["HOST"] or ""), safe=""), f":{given['PORT']}" if given["PORT"] else ""
    login = quote(str(given["USER"])) + (f":{quote(str(given['PASSWORD']))}" if given["PASSWORD"] else "")
    return f"postgres://{login}@{host}{port}/{given['NAME']}"


def environment_here() -> dict[str, str]:
    """For a process of the portal that works on the test's database."""
    given = {"DJANGO_SETTINGS_MODULE": "gpuaas.settings.test", "GPUAAS_TEST_DATABASE_URL": database_here()}
    return {**os.environ, **given}


def start(processes: Started) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "manage.py", "meter"], cwd=ROOT, env=environment_here())
    processes.append(process)
    return process


def end(processes: Started) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
