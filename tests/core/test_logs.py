"""What the portal writes to its log."""

import json
import os
import subprocess
import sys

SAID_ONCE = """
import logging
import django
django.setup()
logging.getLogger("django.request").warning("Not Found: /nothing", extra={"password": "hunter2"})
"""


def test_django_says_each_thing_once_and_through_our_mask() -> None:
    """Also while debugging, when Django's own console handler would say it too."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "gpuaas.settings.test", "GPUAAS_LOG_JSON": "true"}
    program = f"from django.conf import settings\nsettings.DEBUG = True\n{SAID_ONCE}"
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    lines = (said.stdout + said.stderr).splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["Not Found: /nothing"]
    assert "hunter2" not in said.stdout + said.stderr
