"""Callers of the API, and a stage with something in every list."""

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller, token_for
from tests.factories.quotas import limits_give
from tests.lasting import lasting


@pytest.fixture
@lasting
def limits(project: Project, site: Site) -> None:
    limits_give(project)


@pytest.fixture
@lasting
def workspace(project: Project, as_alice: Actor, h100: Flavor, limits: None) -> Workspace:
    """alice's, of 2 × H100; bob may see it."""
    return workspace_request(
        actor=as_alice, project=project, name="train-7b", items=[(h100.slug, 2)], storage_gib=100
    )


@pytest.fixture
def alices(alice: User) -> Caller:
    return Caller(alice)


@pytest.fixture
def bobs(bob: User) -> Caller:
    return Caller(bob)


@pytest.fixture
def charlies(charlie: User) -> Caller:
    return Caller(charlie)


@pytest.fixture
def olgas(olga: User) -> Caller:
    return Caller(olga)


@pytest.fixture
def nobody(db: None) -> Caller:
    return Caller()


@pytest.fixture
def program(alice: User, project: Project) -> Caller:
    """A program with a token of alice's for her project, with all scopes that she may give."""
    return Caller(token=token_for(alice, project))
