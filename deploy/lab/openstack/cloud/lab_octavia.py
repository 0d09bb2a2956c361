"""Load balancers that carry nothing: a provider for Octavia that takes whatever it is told, and in place of Octavia's workers one that
calls it done. Addresses (ports at Neutron), statuses, quotas and rights are Octavia's own."""

import time
from collections import defaultdict

from octavia.api.drivers.driver_agent.driver_updater import DriverUpdater
from octavia.db import api, models
from octavia_lib.api.drivers import provider_base
from octavia_lib.common import constants
from oslo_log import log

LOG = log.getLogger(__name__)
EVERY_S = 0.2
KINDS = ("loadbalancer", "listener", "pool", "member", "health_monitor", "l7policy", "l7rule")
# parts first
MODELS = {
    "listeners": models.Listener,
    "members": models.Member,
    "healthmonitors": models.HealthMonitor,
    "pools": models.Pool,
    "loadbalancers": models.LoadBalancer,
}


class LabProvider(provider_base.ProviderDriver):
    """Its verbs do nothing: they are called within the transaction whose rows the worker reads once it has ended."""


def _taken(self, *args, **more):
    pass


for _kind in KINDS:
    for _verb in ("create", "update", "delete"):
        setattr(LabProvider, f"{_kind}_{_verb}", _taken)


class Worker:
    """Reads what is PENDING, all of it at one moment, and reports it as a provider's agent would."""

    def __init__(self):
        self._sessions = api.session()
        self._updater = DriverUpdater()

    def run(self):
        while True:
            try:
                self._step()
            except Exception:
                LOG.exception("the next turn tries again")
            time.sleep(EVERY_S)

    def _step(self):
        going, made = self._pending()
        for kind in MODELS:
            for one in dict.fromkeys(going[kind]):
                self._report(kind, {"id": one, "provisioning_status": "DELETED"})
            for one in made[kind]:
                status = {"provisioning_status": "ACTIVE", "operating_status": "ONLINE"}
                self._report(kind, {"id": one, **status})

    def _pending(self):
        going, made = defaultdict(list), defaultdict(list)
        with self._sessions() as session, session.begin():
            for kind, model in MODELS.items():
                for row in session.query(model).filter(model.provisioning_status.like("PENDING_%")):
                    if row.provisioning_status != "PENDING_DELETE":
                        made[kind].append(row.id)
                        continue
                    going[kind].append(row.id)
                    if kind == "loadbalancers":
                        _parts_add(row, going)
        return going, made

    def _report(self, kind, row):
        answer = self._updater.update_loadbalancer_status({kind: [row]})
        if answer[constants.STATUS_CODE] != constants.DRVR_STATUS_CODE_OK:
            LOG.error("%s %s: %s", kind, row, answer)


def _parts_add(balancer, going):
    """Of one that is deleted with all its parts (`cascade`)."""
    going["listeners"] += [one.id for one in balancer.listeners]
    for pool in balancer.pools:
        going["pools"].append(pool.id)
        going["members"] += [one.id for one in pool.members]
        going["healthmonitors"] += [pool.health_monitor.id] if pool.health_monitor else []
