"""Ends what runs of the tests have left: `python -m tests.lab.stop`.

That is every lab, wherever it is, that no run uses which goes on, but for the run that this is part of; and the control planes that
the tests share, whoever has started them. Data of the latter stay for the next run.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from deploy.lab.base import BaseLab
from deploy.lab.cluster_api import Lab as ClusterApiLab
from deploy.lab.holds import OWNER
from deploy.lab.kubernetes import Lab
from deploy.lab.kueue import Lab as KueueLab
from deploy.lab.leftovers import leftovers, of_lab
from deploy.lab.node import Lab as NodeLab
from deploy.lab.openstack import Lab as OpenStackLab
from deploy.lab.owners import orphans_end
from deploy.lab.trainer import Lab as TrainerLab
from tests.lab import fixtures
from tests.lab.cluster_api import fixtures as cluster_api
from tests.lab.kueue import fixtures as kueue
from tests.lab.node import fixtures as node
from tests.lab.openstack import fixtures as openstack
from tests.lab.trainer import fixtures as trainer
from tests.lab.virtual import fixtures as virtual


def main() -> None:
    ended = orphans_end(also=os.environ.get(OWNER, ""))
    ended += sum(_stopped(lab) for lab in _shared() if lab.state_dir.exists())
    if ended:
        print(f"Processes of the labs that were ended: {ended}")  # noqa: T201


def _shared() -> Iterator[BaseLab]:
    yield Lab(state_dir=fixtures.STATE_DIR)
    for state_dir in itertools.takewhile(Path.exists, openstack.state_dirs()):
        yield OpenStackLab(state_dir=state_dir)
    yield Lab(state_dir=virtual.STATE_DIR)
    yield KueueLab(state_dir=kueue.STATE_DIR)
    yield TrainerLab(state_dir=trainer.STATE_DIR)
    yield NodeLab(state_dir=node.STATE_DIR)
    # a run with a suffix leaves it to others; its clusters live in memory, so none of them is of use to the next run
    if not os.environ.get("GPUAAS_LAB_SUFFIX"):
        yield ClusterApiLab(state_dir=cluster_api.STATE_DIR)


def _stopped(lab: BaseLab) -> int:
    found = sum(1 for _ in leftovers(of_lab(lab.state_dir)))
    lab.down(purge=isinstance(lab, ClusterApiLab))
    return found


if __name__ == "__main__":
    main()
