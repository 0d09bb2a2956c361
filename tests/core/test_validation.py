"""What a model's own rules refuse is said in our words."""

import pytest

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.core.errors import Invalid
from gpuaas.core.validation import row_check
from tenants.models import Organization, Project

pytestmark = pytest.mark.django_db


def refused(row: Organization | Project | Site | GpuPool) -> dict[str, list[str]]:
    with pytest.raises(Invalid) as found:
        row_check(row)
    return found.value.fields


def test_a_name_that_is_taken_says_by_what(project: Project, site: Site) -> None:
    taken = Project(organization=project.organization, slug=project.slug, name="Again")
    assert refused(taken) == {"slug": ["A project with this slug already exists."]}
    other = Organization(slug=project.organization.slug, name="Again")
    assert refused(other)["slug"] == ["An organization with this slug already exists."]
    pool = GpuPool.objects.filter(site=site).first()
    assert pool is not None
    again = GpuPool(site=site, gpu_type=pool.gpu_type, resource_name="other")
    assert refused(again)[""] == ["A GPU pool with this site and GPU type already exists."]


def test_what_is_missing_and_what_is_too_long(project: Project) -> None:
    row = Project(organization=project.organization, slug="s" * 300, name="")
    found = refused(row)
    assert found["name"] == ["Enter a value."]
    assert any("Write at most" in text for text in found["slug"])
