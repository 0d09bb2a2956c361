"""What `ensure` would change in a project now: it is rehearsed. The cloud does not say who changed something.

Bounded: about a dozen reads and one for each flavor that was bought, however many machines there are; what is the whole site's is
read once for all workspaces that are compared at the same time. Only where something differs all of it is read again.
"""

import time
from collections.abc import Callable

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import Difference, StepSpec
from gpuaas.providers.openstack import flavors, names
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.rehearsal import Rehearsal

MOST = 100  # differences told of one workspace


def drift(cloud: Cloud, rehearse: Callable[[Rehearsal], tuple[Difference, ...]]) -> tuple[Difference, ...]:
    """Whoever sets one thing right sets all of it right. So before a difference is told nothing is believed that was read for somebody
    else: what has changed meanwhile is told with it, and what was set right meanwhile is not."""
    return rehearse(Rehearsal(cloud)) and rehearse(Rehearsal(cloud, since=time.monotonic()))


def differences(
    rehearsal: Rehearsal, steps: tuple[StepSpec, ...], perform: Callable[[str], object]
) -> tuple[Difference, ...]:
    """`perform` does one of the steps at the rehearsal. Raises Permanent where the project is another's."""
    for number, step in enumerate(steps):
        rehearsal.step = step.key
        try:
            perform(step.key)
        except NotFound:
            break  # without its project there is nothing more to say
        except Permanent as error:
            if not number:
                raise
            rehearsal.told.append(Difference(step.label, "", "done", error.message, step=step.key))
    return tuple(rehearsal.told[:MOST])


def site_repair(cloud: Cloud) -> tuple[Difference, ...]:
    """The flavors that we made are for workspaces and clusters only: a grant to anybody else, or to a project that is gone, is taken
    back. Limits that are registered for all projects are the cloud's own; preflight tells of them."""
    made = list(filter(flavors.is_managed, flavors.all_flavors(cloud)))
    granted = [(row, flavors.granted(cloud, row["id"])) for row in made]
    # after what was granted: a project that is made meanwhile is among them
    marks = {"tags-any": f"{names.MANAGED},{names.CLUSTERS}"}
    ours = {row["id"] for row in cloud.items("identity", "/projects", "projects", **marks)}
    told = []
    for row, projects in granted:
        for project in sorted(projects - ours):
            flavors.access_take(cloud, row["id"], project)
            told.append(Difference(f"Flavor/{row['name']}", f"access[{project}]", "not granted", "granted"))
    return tuple(told)
