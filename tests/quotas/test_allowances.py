"""What nobody bought at a site is closed to the warden as it is at the site itself."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.catalog.models import Site
from quotas.allowances import nothing_at
from tests.factories.catalog import GpuPoolFactory, SiteFactory


@pytest.mark.django_db
def test_every_name_by_which_a_site_counts_devices_is_closed() -> None:
    site = SiteFactory.create(gpu_names=["CUSTOM_GPU_H100", "nvidia.com/gpu", "second.name/gpu"])
    GpuPoolFactory.create(site=site, resource_name="nvidia.com/gpu", also=["second.name/gpu"])
    GpuPoolFactory.create(site=site, gpu_type__slug="new", resource_name="nvidia.com/new")
    with CaptureQueriesContext(connection) as queries:
        found = nothing_at(site.pk)
    assert found == {"CUSTOM_GPU_H100": 0, "nvidia.com/gpu": 0, "nvidia.com/new": 0}
    assert len(queries) == 1


@pytest.mark.django_db
def test_a_site_that_has_not_been_looked_at_closes_nothing() -> None:
    site: Site = SiteFactory.create()
    assert nothing_at(site.pk) == {}
