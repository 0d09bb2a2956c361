"""What the demo and the tests need to know: URLs of started services and keys that survive a restart."""

import fcntl
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.fernet import Fernet

from deploy.embedded import postgres, redis
from deploy.lab.holds import disowned

ROOT = Path(__file__).resolve().parents[2]
DEMO_FOLDER = Path(os.environ.get("GPUAAS_DEMO_FOLDER") or ROOT / ".demo")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuaas-test-services"


@dataclass(frozen=True)
class DemoEnvironment:
    database_url: str
    redis_url: str
    secret_key: str
    encryption_key: str


def demo_environment(folder: Path = DEMO_FOLDER) -> DemoEnvironment:
    """Keys, made once and readable to the owner alone, and services: those that GPUAAS_DATABASE_URL and
    GPUAAS_BROKER_URL name, else those in `folder`, started where they do not run."""
    folder.mkdir(parents=True, exist_ok=True)
    database, broker = os.environ.get("GPUAAS_DATABASE_URL"), os.environ.get("GPUAAS_BROKER_URL")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = _keys(folder / "keys.json")
        return DemoEnvironment(
            database_url=database or postgres.start(folder / "postgres", postgres.DEMO_OPTIONS),
            redis_url=broker or redis.start(folder / "redis"),
            secret_key=keys["secret_key"],
            encryption_key=keys["encryption_key"],
        )


def demo_stop(folder: Path = DEMO_FOLDER) -> None:
    redis.stop(folder / "redis")
    postgres.stop(folder / "postgres")


def test_database_url() -> str:
    """Nothing is started where GPUAAS_TEST_DATABASE_URL names a server."""
    given = os.environ.get("GPUAAS_TEST_DATABASE_URL")
    with disowned():  # other runs use it too
        return given or postgres.start(CACHE / "postgres", postgres.TEST_OPTIONS, outlives_checkout=True)


def test_redis_url() -> str:
    given = os.environ.get("GPUAAS_TEST_REDIS_URL")
    if given:
        return given
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock, disowned():
        fcntl.flock(lock, fcntl.LOCK_EX)
        return redis.start(CACHE / "redis")


def _keys(path: Path) -> dict[str, str]:
    if not path.exists():
        keys = {"secret_key": secrets.token_urlsafe(50), "encryption_key": Fernet.generate_key().decode()}
        path.touch(mode=0o600)
        path.write_text(json.dumps(keys), encoding="utf-8")
    loaded: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return loaded
