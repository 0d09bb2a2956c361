"""What the portal is made of is asked of what it runs on."""

import socket
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from deploy import embedded
from gpuaas.system.versions import broker_version, license_of


def test_the_broker_is_asked_and_may_be_away(settings: Any) -> None:
    settings.CELERY_BROKER_URL = embedded.test_redis_url()
    found = broker_version()
    assert found.name == "Redis"
    assert found.version[0].isdigit()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
        assert broker_version().version == ""
    settings.CELERY_BROKER_URL = "memory://"
    assert broker_version().name == "Broker (memory)"


@pytest.mark.parametrize(
    ("said", "license"),
    [
        ("License-Expression: MIT\nLicense: something else", "MIT"),
        ("License: BSD", "BSD"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License", "MIT License"),
        (f"License: {'Permission is granted to whoever ' * 9}\nClassifier: License :: X :: Y", "Y"),
        ("Classifier: Framework :: Django", "not stated"),
    ],
)
def test_the_license_is_what_the_distribution_declares(tmp_path: Path, said: str, license: str) -> None:
    (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.4\nName: x\nVersion: 1\n{said}\n", "utf-8")
    assert license_of(PathDistribution(tmp_path)) == license
