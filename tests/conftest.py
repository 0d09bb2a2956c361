"""The cast and the stage of every test: alice owns, bob is her teammate, charlie is the outsider, olga operates."""

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

from deploy.lab.files import CACHE
from gpuaas.catalog.models import Flavor, Site
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tenants.selectors import actor_for
from tests.factories.catalog import stock_site
from tests.factories.tenants import (
    OrganizationFactory,
    OrganizationMembershipFactory,
    ProjectFactory,
    ProjectMembershipFactory,
    UserFactory,
)

# What Hypothesis reads from each of our sources is kept for all checkouts, as it takes ten seconds; what failed is of one.
set_hypothesis_home_dir(CACHE / "gpuaas-hypothesis")
# a busy machine is no fault of what is tested
settings.register_profile(
    "busy",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    derandomize=False,  # which Hypothesis does by itself where CI says that it is one; tests/examples.py decides
)
settings.load_profile("busy")

pytest_plugins = [
    "tests.examples",
    "tests.lasting",
    "tests.one_piece",
    "tests.one_chain",
    "tests.tiers",
    "tests.durations",
    "tests.browser",
    "tests.live",
    "tests.lab.fixtures",
    "tests.lab.openstack.fixtures",
    "tests.lab.cluster_api.fixtures",
    "tests.lab.virtual.fixtures",
    "tests.lab.kueue.fixtures",
    "tests.lab.trainer.fixtures",
    "tests.lab.node.fixtures",
    "tests.lab.cluster_api.tenancy",
]


def pytest_collection_finish() -> None:
    """Thousands of collected tests are looked through for garbage no more, which is a tenth of a run's time.

    For a browser: when to give up on a page, not how fast it is; where no test of this run has one, none is loaded.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    if browser := sys.modules.get("playwright.sync_api"):
        browser.expect.set_options(timeout=30_000)


@pytest.fixture
def organization(db: None) -> Organization:
    return OrganizationFactory.create(slug="climate", name="Climate Physics")


@pytest.fixture
def project(organization: Organization) -> Project:
    return ProjectFactory.create(organization=organization, slug="weather-lm", name="Weather LM")


@pytest.fixture
def other_project(db: None) -> Project:
    """charlie's: another organization, so alice is the outsider there."""
    return ProjectFactory.create(organization=OrganizationFactory.create(slug="biology"), slug="protein-fold")


@pytest.fixture
def alice(project: Project) -> User:
    user = UserFactory.create(username="alice")
    OrganizationMembershipFactory.create(organization=project.organization, user=user, role="owner")
    return user


@pytest.fixture
def bob(project: Project) -> User:
    user = UserFactory.create(username="bob")
    ProjectMembershipFactory.create(project=project, user=user, role="member")
    return user


@pytest.fixture
def charlie(other_project: Project) -> User:
    user = UserFactory.create(username="charlie")
    ProjectMembershipFactory.create(project=other_project, user=user, role="admin")
    return user


@pytest.fixture
def olga(db: None) -> User:
    return UserFactory.create(username="olga", platform_role="operator")


@pytest.fixture
def as_alice(alice: User) -> Actor:
    return actor_for(user=alice)


@pytest.fixture
def as_bob(bob: User) -> Actor:
    return actor_for(user=bob)


@pytest.fixture
def as_charlie(charlie: User) -> Actor:
    return actor_for(user=charlie)


@pytest.fixture
def as_olga(olga: User) -> Actor:
    return actor_for(user=olga)


@pytest.fixture
def site(db: None) -> Site:
    """A sandbox site `ber-1` with 16 × H100 (flavor h100.1) and 8 × L40S (flavor l40s.1), capacity known to quotas."""
    return stock_site()


@pytest.fixture
def h100(site: Site) -> Flavor:
    return Flavor.objects.select_related("pool__gpu_type", "pool__site").get(slug="h100.1", pool__site=site)


@pytest.fixture
def l40s(site: Site) -> Flavor:
    return Flavor.objects.select_related("pool__gpu_type", "pool__site").get(slug="l40s.1", pool__site=site)


@pytest.fixture(autouse=True)
def _no_leftover_request() -> Iterator[None]:
    from gpuaas.core.request import RequestInfo, current_request

    token = current_request.set(RequestInfo())
    yield
    current_request.reset(token)
