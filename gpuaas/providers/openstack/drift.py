"""What `ensure` would change in a project now, by a dry run. The cloud does not say who changed something.

Bounded: about a dozen reads and one for each bought flavor, however many machines there are; data of the whole site is read once
for all workspaces that are compared at the same time. Everything is read again only if something differs.
"""

import time
from collections.abc import Callable

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import Difference, StepSpec
from gpuaas.providers.openstack import flavors, names
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.dry_run import DryRun

MOST = 100  # differences reported for one workspace


def drift(cloud: Cloud, run_dry: Callable[[DryRun], tuple[Difference, ...]]) -> tuple[Difference, ...]:
    """A repair covers all differences at once. So a difference is confirmed without shared caches before it is reported: this adds
    changes made in the meantime and drops those already repaired."""
    return run_dry(DryRun(cloud)) and run_dry(DryRun(cloud, since=time.monotonic()))


def differences(
    dry_run: DryRun, steps: tuple[StepSpec, ...], perform: Callable[[str], object]
) -> tuple[Difference, ...]:
    """`perform` does one of the steps in the dry run. Raises Permanent if the project is not this workspace's."""
    for number, step in enumerate(steps):
        dry_run.step = step.key
        try:
            perform(step.key)
        except NotFound:
            break  # without its project there is nothing more to compare
        except Permanent as error:
            if not number:
                raise
            dry_run.differences.append(Difference(step.label, "", "done", error.message, step=step.key))
    return tuple(dry_run.differences[:MOST])


def site_repair(cloud: Cloud) -> tuple[Difference, ...]:
    """Our flavors are for workspaces and clusters only: grants to other projects, or to deleted ones, are revoked. Registered
    limits belong to the cloud; preflight checks them."""
    made = list(filter(flavors.is_managed, flavors.all_flavors(cloud)))
    granted = [(row, flavors.granted(cloud, row["id"])) for row in made]
    # read after the grants, so that projects created in the meantime are included
    marks = {"tags-any": f"{names.MANAGED},{names.CLUSTERS}"}
    ours = {row["id"] for row in cloud.items("identity", "/projects", "projects", **marks)}
    revoked = []
    for row, projects in granted:
        for project in sorted(projects - ours):
            flavors.access_take(cloud, row["id"], project)
            revoked.append(
                Difference(f"Flavor/{row['name']}", f"access[{project}]", "not granted", "granted")
            )
    return tuple(revoked)
