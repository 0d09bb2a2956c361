"""The demo's data: people, two organizations, a sandbox site with prices, limits. Every part is skipped where it is there.

`--lab KUBECONFIG` attaches a Kubernetes cluster as site `lab`, publishes what was discovered, prices it, and gives
the demo's projects limits for it.
"""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

import django

GPU_PRICES = {
    "h100": "2.40",
    "h200": "3.10",
    "a100-sxm-80gb": "1.45",
    "a100-80gb": "1.45",
    "mig": "0.16",
    "shared": "0.24",
    "l40s": "0.95",
    "a100": "1.20",
}
UNIT_PRICES = {"storage_held": "0.00012"}
LIMITS = {"weather-lm": 8, "downscale": 4, "protein-fold": 8}
UNITS = {"vcpu": 512, "memory": 8192, "storage": 20_000}
PASSWORD = "demo"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.embedded.seed")
    parser.add_argument("--lab", type=Path, help="the kubeconfig of a cluster to attach as site `lab`")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.demo")
    django.setup()
    if options.lab:
        attach("lab", "Lab", driver="kubernetes", credentials={"kubeconfig": options.lab.read_text(encoding="utf-8")})
    else:
        people()
        sandbox()
    offer()
    limits()


def people() -> None:
    """alice owns an organization with two projects, bob is her teammate, charlie is elsewhere, olga operates."""
    from tenants.actors import SYSTEM
    from tenants.models import Organization, User
    from tenants.services import (
        organization_create,
        organization_member_set,
        project_create,
        project_member_set,
        user_create,
    )

    if User.objects.filter(username="olga").exists():
        return
    made = {}
    for name, role in (("olga", "operator"), ("alice", ""), ("bob", ""), ("charlie", "")):
        made[name] = user_create(
            actor=SYSTEM, username=name, email=f"{name}@example.org", platform_role=role, password=PASSWORD
        )
    climate = organization_create(actor=SYSTEM, slug="climate", name="Climate Physics", owner=made["alice"])
    biology = organization_create(actor=SYSTEM, slug="biology", name="Structural Biology")
    for organization, slug, name in (
        (climate, "weather-lm", "Weather LM"),
        (climate, "downscale", "Downscaling"),
        (biology, "protein-fold", "Protein Folding"),
    ):
        project_create(actor=SYSTEM, organization=organization, slug=slug, name=name)
    weather, fold = climate.projects.get(slug="weather-lm"), biology.projects.get(slug="protein-fold")
    project_member_set(actor=SYSTEM, project=weather, user=made["bob"], role="member")
    project_member_set(actor=SYSTEM, project=fold, user=made["charlie"], role="admin")
    organization_member_set(
        actor=SYSTEM, organization=Organization.objects.get(pk=biology.pk), user=made["charlie"], role="owner"
    )


def sandbox() -> None:
    from gpuaas.catalog.models import Site
    from gpuaas.providers.sandbox.dials import dials_set
    from gpuaas.providers.sandbox.fleet import fleet_seed

    if Site.objects.filter(slug="ber-1").exists():
        return
    attach("ber-1", "Berlin 1", driver="sandbox", credentials={}, before_probe=lambda site_id: fleet_seed(site_id, slug="ber-1"))
    dials_set(Site.objects.get(slug="ber-1").pk, latency_ms=150, confirm_ms=800)
