"""Embedded PostgreSQL and Redis for `make demo` and the tests: programs from wheels, no root, no Docker."""

from deploy.embedded.environment import demo_environment, test_database_url, test_redis_url
from deploy.embedded.postgres import PROGRAMS as POSTGRES_PROGRAMS

__all__ = ["POSTGRES_PROGRAMS", "demo_environment", "test_database_url", "test_redis_url"]
