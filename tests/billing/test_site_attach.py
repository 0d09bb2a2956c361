"""`manage.py site_attach`."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Site
from gpuaas.catalog.services import flavor_create, flavor_defaults
from gpuaas.core.crypto import decrypt_json
from gpuaas.metering.models import Meter
from gpuaas.providers.sandbox.dials import dials_set, fault_set
from gpuaas.providers.sandbox.fleet import fleet_seed
from tenants.actors import SYSTEM
from tests.factories.credentials import kubeconfig_made


def attach(*options: str) -> str:
    out = StringIO()
    call_command("site_attach", "--slug", "lab-1", "--driver", "sandbox", *options, stdout=out)
    return out.getvalue()


def test_attach_then_publish(db: None, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_made())
    assert "lab-1: sandbox 1" in attach("--kubeconfig", str(kubeconfig))
    site = Site.objects.get()
    assert decrypt_json(site.credentials) == {"kubeconfig": kubeconfig_made()}
    fleet_seed(site.pk)
    sold = attach("--publish", "--without-price", "--name", "Lab")
    assert "h100-sxm-80gb: 16 of 16 not allocated (h100-sxm-80gb.1)" in sold
    assert Flavor.objects.filter(state="active").count() == 4
    assert (Site.objects.get().name, bool(Site.objects.get().credentials)) == ("Lab", True)


def test_what_has_no_price_is_published_only_by_a_word(db: None) -> None:
    """What has one is published; the rest is named, with nothing of it left behind."""
    attach()
    fleet_seed(Site.objects.get().pk)
    attach()
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    priced = flavor_create(actor=SYSTEM, pool=pool, **flavor_defaults(pool))
    rate_set(actor=SYSTEM, flavor=priced, meter=Meter.GPU_HELD, price="2.40")
    with pytest.raises(
        CommandError, match=r"lab-1 is attached\. .* are not published for want of a price"
    ) as found:
        attach("--publish")
    assert "h100-sxm-80gb" not in str(found.value)
    assert list(Flavor.objects.values_list("slug", "state")) == [(priced.slug, "active")]
    assert set(GpuType.objects.filter(state="active")) == {pool.gpu_type}
    attach("--publish", "--without-price")
    assert Flavor.objects.filter(state="active").count() == 4


def test_silent_site_and_missing_file_are_told(db: None, tmp_path: Path) -> None:
    attach()
    dials_set(Site.objects.get().pk, down=True)
    with pytest.raises(CommandError, match="does not answer"):
        attach()
    with pytest.raises(CommandError, match="cannot be read"):
        attach("--kubeconfig", str(tmp_path / "none"))


def test_what_is_no_kubeconfig_attaches_nothing(db: None, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("hello: world\n")
    for more in ((), ("--driver", "kubernetes")):
        with pytest.raises(CommandError, match="not a kubeconfig"):
            attach("--kubeconfig", str(kubeconfig), *more)
    assert not Site.objects.exists()


def test_the_checks_are_told(db: None) -> None:
    attach()
    site = Site.objects.get()
    fault_set(site.pk, area="checks", name="Guards", found="False")
    told = attach()
    assert "Guards: False" in told
    assert "not fit to be sold" in told
    fault_set(site.pk, area="checks", name="Guards")
    assert "12 of 12 checks passed; the site is fit to be sold" in attach()
