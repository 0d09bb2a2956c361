"""The driver of simulated sites. Its steps and refusals match those of the Kubernetes driver."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Q, Sum

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Permanent
from gpuaas.core.rows import one_or_none
from gpuaas.providers import base
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.kubeconfig import kubeconfig_check
from gpuaas.providers.sandbox import access, fitness
from gpuaas.providers.sandbox.adoption import SandboxAdoption
from gpuaas.providers.sandbox.claims import volumes_in
from gpuaas.providers.sandbox.dials import call, site_write
from gpuaas.providers.sandbox.drift import LIMITS, changes_stream, compare, labels_of, wanted
from gpuaas.providers.sandbox.inventory import inventory
from gpuaas.providers.sandbox.models import (
    SandboxMember,
    SandboxNamespace,
    SandboxQuota,
    SandboxSite,
)
from gpuaas.providers.sandbox.pods import pod_evict, pods_end
from gpuaas.providers.sandbox.simulation import advance, consumer_of
from gpuaas.providers.sandbox.suspend import pods_stop, workloads_restore, workloads_scale_away
from gpuaas.providers.sandbox.watch import usage_stream

Do = Callable[[SandboxSite, base.WorkspaceSpec], base.StepOutcome]


def timeline(space: str, consumers: str) -> dict[base.Change, tuple[base.StepSpec, ...]]:
    """With the site's terms."""
    make = (
        base.StepSpec("namespace", f"Create the {space}"),
        base.StepSpec("quota", "Set the quota", safety=True),
        base.StepSpec("confirmed", "Wait until the site enforces the quota", safety=True),
        base.StepSpec("limits", f"Set defaults for {consumers}"),
        base.StepSpec("network", "Isolate the network from other tenants"),
        base.StepSpec("access", "Give the members access"),
    )
    return {
        base.Change.CREATE: make,
        base.Change.RESIZE: make,
        base.Change.SUSPEND: (
            base.StepSpec("quota", "Set the quota to zero"),
            base.StepSpec("confirmed", "Wait until the site enforces the quota"),
            base.StepSpec("workloads", "Scale the workloads down"),
            base.StepSpec("pods", "Wait until nothing is running"),
        ),
        base.Change.RESUME: (*make, base.StepSpec("workloads", "Restart the workloads")),
        base.Change.DELETE: (
            base.StepSpec("access", "Revoke the members' access"),
            base.StepSpec("pods", f"Stop all {consumers}"),
            base.StepSpec("namespace", f"Delete the {space}"),
            base.StepSpec("gone", "Verify that nothing is left"),
        ),
    }


class SandboxDriver(
    base.Driver,
    base.AccessCapability,
    base.UsageCapability,
    base.PreflightCapability,
    base.HealthCapability,
    base.NodeCheckCapability,
    base.WardenCapability,
    SandboxAdoption,
    base.DriftCapability,
):
    name = "sandbox"
    access_kind = base.AccessKind.KUBECONFIG
    # the site's terms for a workspace, and for its consumers
    space, consumers = "namespace", "pods"
    changes = timeline(space, consumers)

    @classmethod
    def credentials_check(cls, credentials: Mapping[str, Any]) -> None:
        """A token, a kubeconfig, or nothing if the site needs no token."""
        if "kubeconfig" in credentials:
            kubeconfig_check(credentials["kubeconfig"])

    def probe(self) -> base.Inventory:
        with call(self.connection, "probe"):
            with site_write(self.connection.site_id) as site:
                advance(site, now=clock.now())
            return inventory(site, self.connection.sold)

    def perform(self, change: base.Change, spec: base.WorkspaceSpec, step: str) -> base.StepOutcome:
        do = base.step_require(DO[change], step)
        with call(self.connection, f"{change}:{step}"), site_write(self.connection.site_id) as site:
            advance(site, now=clock.now())
            return do(site, spec)

    def observe(self, ref: base.WorkspaceRef) -> base.ObservedWorkspace:
        with call(self.connection, "observe"):
            with site_write(self.connection.site_id) as site:
                advance(site, now=clock.now())
            room = one_or_none(
                SandboxNamespace.objects.filter(site=site, name=ref.external_name, owner=ref.id)
            )
            if room is None:
                return base.ObservedWorkspace(exists=False)
            quotas = list(room.quotas.all())
            return base.ObservedWorkspace(
                exists=True,
                hard={row.resource: row.hard for row in quotas if row.hard is not None},
                used={row.resource: row.used for row in quotas},
                consumers=tuple(consumer_of(pod) for pod in room.pods.all()),
                volumes=volumes_in(room),
            )

    def issue_access(
        self, ref: base.WorkspaceRef, member: base.Member, *, lifetime: timedelta
    ) -> base.Access:
        return access.issue(self.connection, ref, member, lifetime=lifetime, kind=self.access_kind)

    def revoke_access(self, ref: base.WorkspaceRef, member: base.Member) -> None:
        access.revoke(self.connection, ref, member)

    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[base.UsageEvent]:
        return usage_stream(self.connection, cursor, seconds=seconds)

    def preflight(self) -> tuple[base.Check, ...]:
        return fitness.preflight(self.connection)

    def device_health(self) -> tuple[base.NodeHealth, ...]:
        return fitness.device_health(self.connection)

    def node_check_start(self, node: str, check_id: uuid.UUID) -> None:
        fitness.check_start(self.connection, node, check_id)

    def node_check_result(self, check_id: uuid.UUID) -> base.NodeCheckOutcome:
        return fitness.check_result(self.connection, check_id)

    def node_check_end(self, check_id: uuid.UUID) -> None:
        fitness.check_end(self.connection, check_id)

    def evict(self, workspace_name: str, consumer: base.ObservedConsumer, *, reason: str) -> bool:
        with call(self.connection, "evict"):
            return pod_evict(self.connection.site_id, workspace_name, consumer.uid, reason=reason)

    def drift(self, spec: base.WorkspaceSpec) -> tuple[base.Difference, ...]:
        with call(self.connection, "drift"):
            with site_write(self.connection.site_id) as site:
                advance(site, now=clock.now())
                room = _namespace(site, spec.ref)
            return compare(room, spec, *wanted(spec), space=self.space)

    def site_repair(self) -> tuple[base.Difference, ...]:
        """A simulated site has no policies of its own."""
        return ()

    def watch_changes(self, cursor: str, *, seconds: int) -> Iterator[base.SiteChange]:
        return changes_stream(self.connection, cursor, seconds=seconds)


# -- ensure ---------------------------------------------------------------------------------------------------------


def _namespace(site: SandboxSite, ref: base.WorkspaceRef) -> SandboxNamespace | None:
    """The workspace's own namespace. Raises Permanent if the name belongs to somebody else."""
    room = one_or_none(SandboxNamespace.objects.filter(site=site, name=ref.external_name))
    if room is not None and room.owner != ref.id:
        raise Permanent(
            f"{ref.external_name} at the site is not this workspace's; the portal leaves it alone"
        )
    return room


def _living(site: SandboxSite, spec: base.WorkspaceSpec) -> SandboxNamespace:
    room = _namespace(site, spec.ref)
    if room is None or room.gone_at is not None:
        raise NotFound(f"{spec.external_name} is not at the site; it must be created again")
    return room


def _ensure_namespace(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
    room = _namespace(site, spec.ref)
    if room is not None and room.gone_at is not None:
        return base.StepOutcome(done=False, detail="the previous object of this name is still being deleted")
    SandboxNamespace.objects.update_or_create(
        site=site, name=spec.external_name, defaults={"owner": spec.id, "labels": labels_of(spec)}
    )
    return base.StepOutcome(done=True, detail=spec.external_name)


def _ensure_quota(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
    room = _living(site, spec)
    hard, selectors = wanted(spec)
    changed = dict(room.quotas.values_list("resource", "wanted")) != hard or room.selectors != selectors
    changed = changed or room.suspended != spec.suspended
    if changed:
        room.quotas.exclude(resource__in=hard).delete()
        used = _counted(room)
        SandboxQuota.objects.bulk_create(
            [
                SandboxQuota(namespace=room, resource=key, wanted=amount, used=used[key])
                for key, amount in hard.items()
            ],
            update_conflicts=True,
            unique_fields=["namespace", "resource"],
            update_fields=["wanted", "used"],
        )
        room.selectors, room.suspended = selectors, spec.suspended
        room.confirm_at = clock.now() + timedelta(milliseconds=site.confirm_ms)
        room.save(update_fields=["selectors", "suspended", "confirm_at"])
        advance(site, now=clock.now())
    bought = ", ".join(f"{gpu.count} {gpu.resource_name}" for gpu in spec.gpus)
    return base.StepOutcome(done=True, detail=f"hard limit: {bought or 'no GPUs'}")


def _counted(room: SandboxNamespace) -> Counter[str]:
    """What live pods and claims hold of each key; a newly listed key starts from there, not from zero."""
    used: Counter[str] = Counter()
    for claim in room.claims.all():
        used.update(claim.charges)
    for pod in room.pods.filter(finished_at=None):
        used.update(pod.charges)
    return used


def _unconfirmed(room: SandboxNamespace) -> int:
    count: int = room.quotas.filter(Q(hard=None) | ~Q(hard=F("wanted"))).count()
    return count


def _ensure_confirmed(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
    room = _living(site, spec)
    if not room.quotas.exists():
        raise NotFound(f"{room.name} has no quota at the site; it must be set again")
    if left := _unconfirmed(room):
        return base.StepOutcome(done=False, detail=f"the site has not confirmed {left} keys of the quota yet")
    return base.StepOutcome(done=True, detail="the site enforces every key of the quota")


def _ensure_limits(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
    room = _living(site, spec)
    room.limits = LIMITS
    room.save(update_fields=["limits"])
    return DONE


def _ensure_network(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
    room = _living(site, spec)
    room.isolated = True
    room.save(update_fields=["isolated"])
    return DONE


def _ensure_access(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
    """Members come last: nobody has access before the quota is enforced."""
    room = _living(site, spec)
    if not room.quotas.exists() or _unconfirmed(room):
        return base.StepOutcome(done=False, detail="members get access once the site enforces the quota")
    room.members.exclude(subject__in=[member.subject for member in spec.members]).delete()
    SandboxMember.objects.bulk_create(
        [
            SandboxMember(namespace=room, subject=member.subject, name=member.name, role=member.role)
            for member in spec.members
        ],
        update_conflicts=True,
        unique_fields=["namespace", "subject"],
        update_fields=["name", "role"],
    )
    return base.StepOutcome(
        done=True, detail=f"{len(spec.members)} member{'s' if len(spec.members) != 1 else ''}"
    )


# -- release --------------------------------------------------------------------------------------------------------


def _release_access(site: SandboxSite, room: SandboxNamespace) -> base.StepOutcome:
    del site
    room.members.all().delete()
    return DONE


def _release_pods(site: SandboxSite, room: SandboxNamespace) -> base.StepOutcome:
    pods_end(site, room.pods.all())
    advance(site, now=clock.now())
    left = room.pods.aggregate(pods=Count("pk"), gpus=Sum("gpus", filter=Q(finished_at=None), default=0))
    if left["pods"]:
        return base.StepOutcome(done=False, detail=f"still ending: {left['pods']} with {left['gpus']} GPUs")
    return base.StepOutcome(done=True, detail="nothing is running any more")


def _release_namespace(site: SandboxSite, room: SandboxNamespace) -> base.StepOutcome:
    if room.gone_at is None:
        pods_end(site, room.pods.all())
        room.gone_at = clock.now() + timedelta(milliseconds=site.namespace_ms)
        room.save(update_fields=["gone_at"])
        advance(site, now=clock.now())
    return base.StepOutcome(done=True, detail=f"the site is deleting {room.name}")


def _release_gone(site: SandboxSite, room: SandboxNamespace) -> base.StepOutcome:
    del site
    if room.gone_at is None:
        raise NotFound(f"the deletion of {room.name} must be requested again")
    return base.StepOutcome(done=False, detail=f"{room.name} is still being deleted")


# -- the steps --------------------------------------------------------------------------------------------


def _if_ours(do: Callable[[SandboxSite, SandboxNamespace], base.StepOutcome]) -> Do:
    """A missing or foreign namespace counts as deleted."""

    def run(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
        room = one_or_none(SandboxNamespace.objects.filter(site=site, name=spec.external_name, owner=spec.id))
        return do(site, room) if room is not None else DONE

    return run


def _if_present(do: Callable[[SandboxSite, base.WorkspaceSpec, SandboxNamespace], base.StepOutcome]) -> Do:
    """A missing namespace counts as suspended."""

    def run(site: SandboxSite, spec: base.WorkspaceSpec) -> base.StepOutcome:
        room = _namespace(site, spec.ref)
        return do(site, spec, room) if room is not None and room.gone_at is None else DONE

    return run


MAKE: dict[str, Do] = {
    "namespace": _ensure_namespace,
    "quota": _ensure_quota,
    "confirmed": _ensure_confirmed,
    "limits": _ensure_limits,
    "network": _ensure_network,
    "access": _ensure_access,
}
DO: dict[base.Change, dict[str, Do]] = {
    base.Change.CREATE: MAKE,
    base.Change.RESIZE: MAKE,
    base.Change.SUSPEND: {
        "quota": _if_present(lambda site, spec, _: _ensure_quota(site, spec)),
        "confirmed": _if_present(lambda site, spec, _: _ensure_confirmed(site, spec)),
        "workloads": _if_present(lambda _, __, room: workloads_scale_away(room)),
        "pods": _if_present(lambda site, _, room: pods_stop(site, room)),
    },
    base.Change.RESUME: {
        **MAKE,
        "workloads": lambda site, spec: workloads_restore(site, _living(site, spec)),
    },
    base.Change.DELETE: {
        "access": _if_ours(_release_access),
        "pods": _if_ours(_release_pods),
        "namespace": _if_ours(_release_namespace),
        "gone": _if_ours(_release_gone),
    },
}
