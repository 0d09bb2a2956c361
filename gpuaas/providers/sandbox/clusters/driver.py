"""Clusters on demand at a simulated site: machines take time to boot, workers use devices of the simulated fleet."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from gpuaas.core import clock
from gpuaas.core.errors import NoCapacity, NotFound, Permanent
from gpuaas.providers import base
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP, all_ready, machines_run
from gpuaas.providers.base.evidence import evident
from gpuaas.providers.base.steps import DONE, objects_left, still_going
from gpuaas.providers.sandbox.clusters import demand, entrance, objects, plan, slurm
from gpuaas.providers.sandbox.clusters.objects import Thing, move, shown, things
from gpuaas.providers.sandbox.clusters.plan import (
    ADDON,
    ADDRESS,
    MACHINE,
    NETWORK,
    ROOM,
    SECURITY_GROUP,
    control_name,
    room_name,
    worker_name,
)
from gpuaas.providers.sandbox.dials import call, site_write
from gpuaas.providers.sandbox.models import SandboxClusterToken, SandboxPod, SandboxSite

Do = Callable[[SandboxSite, base.ClusterSpec], base.StepOutcome]
# a refusal after some objects were created, which the site keeps
Answer = base.StepOutcome | NoCapacity


class SandboxClusterDriver(
    base.ClusterDriver,
    base.ClusterAccessCapability,
    base.ClusterRevocationCapability,
    base.ClusterSignalsCapability,
    base.ClusterBurstCapability,
    base.ClusterJobsCapability,
):
    name = "sandbox"
    kinds = frozenset(base.ClusterKind)
    timeline = plan.SandboxTimeline

    def perform(self, change: base.Change, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        if change is base.Change.DELETE:
            return self._delete(spec, step)
        return self._make(spec, step, f"cluster:{change}:{step}")

    def _delete(self, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        kinds: dict[str, tuple[str, ...]] = {
            "access": (),
            "addons": (ADDON,),
            "workers": (MACHINE,),
            "control-plane": (MACHINE,),
            "network": (NETWORK, SECURITY_GROUP, ADDRESS, ROOM),
            "gone": (),
        }
        gone = base.step_require(kinds, step)
        with self._site(f"cluster:delete:{step}") as site:
            if step == "access":
                SandboxClusterToken.objects.filter(endpoint__site=site, endpoint__tag=spec.id).delete()
                return DONE
            rows = things(site, spec.id, *gone)
            if step == "gone":
                return objects_left(tuple(map(shown, rows)))
            if step == "workers":
                rows = [row for row in rows if row.facts.get("pool")]
            objects.remove(site, rows)
            keys = [row.pk for row in rows]
            return objects_left(tuple(map(shown, Thing.objects.filter(pk__in=keys))))

    def observe(self, ref: base.ClusterRef) -> base.ObservedCluster:
        with self._site("cluster:observe") as site:
            rows = things(site, ref.id)
            machines = [row for row in rows if row.kind == MACHINE and row.gone_at is None]
            answers = any(row.kind == ADDRESS for row in rows) and any(
                _is_ready(row) for row in machines if not row.facts["pool"]
            )
            return base.ObservedCluster(
                exists=bool(rows),
                endpoint=entrance.address(ref) if answers else "",
                nodes=tuple(_node(row) for row in machines),
            )

    def inventory(self, ref: base.ClusterRef | None = None) -> tuple[base.SiteObject, ...]:
        with self._site("cluster:inventory") as site:
            if ref is not None:
                return tuple(map(shown, things(site, ref.id)))
            return tuple(map(shown, Thing.objects.filter(site=site, tag__isnull=False)))

    def access(self, spec: base.ClusterSpec, member: base.Member, *, lifetime: timedelta) -> base.Access:
        with self._site("cluster:access") as site:
            now = clock.now()
            token = entrance.token_make(self._entrance(site, spec), member.subject, now + lifetime)
        return base.Access(
            entrance.kubeconfig(spec.ref, member, token), now + lifetime, base.AccessKind.KUBECONFIG
        )

    def revoke(self, spec: base.ClusterSpec, member: base.Member) -> None:
        with self._site("cluster:revoke") as site:
            rows = SandboxClusterToken.objects.filter(endpoint__site=site, endpoint__tag=spec.id)
            rows.filter(subject=member.subject).delete()

    def join(self, spec: base.ClusterSpec) -> base.Join:
        """The token is for workers only, and valid for minutes."""
        with self._site("cluster:join") as site:
            endpoint, now = self._entrance(site, spec), clock.now()
            SandboxClusterToken.objects.filter(
                endpoint=endpoint, subject=entrance.WORKERS, expires_at__lte=now
            ).delete()
            return base.Join(
                entrance.address(spec.ref),
                entrance.token_make(endpoint, entrance.WORKERS, now + entrance.JOIN_LIVES),
            )

    def signals(self, spec: base.ClusterSpec) -> tuple[base.PoolSignals, ...]:
        with self._site("cluster:signals") as site:
            return demand.signals(site, spec)

    def slurm_exchange(
        self, spec: base.ClusterSpec, orders: Sequence[base.SlurmOrder]
    ) -> tuple[base.SlurmSeen, ...]:
        with self._site("cluster:jobs") as site:
            return slurm.jobs(site, spec, orders)

    def _entrance(self, site: SandboxSite, spec: base.ClusterSpec) -> Thing:
        """The address. Raises NotFound unless the control plane answers."""
        found = next(iter(things(site, spec.id, ADDRESS)), None)
        control = [row for row in things(site, spec.id, MACHINE) if not row.facts["pool"]]
        if found is None or not any(map(_is_ready, control)):
            raise NotFound("the cluster's API does not answer yet")
        return found

    @contextmanager
    def _site(self, verb: str) -> Iterator[SandboxSite]:
        """Every call goes through it; errors get evidence of the call."""
        evidence = evident(self.connection.site_slug, verb)
        with evidence, call(self.connection, verb), site_write(self.connection.site_id) as site:
            move(site)
            yield site

    def _make(self, spec: base.ClusterSpec, step: str, verb: str) -> base.StepOutcome:
        do: dict[str, Do] = {
            "network": _network,
            "endpoint": _endpoint,
            "control-plane": _control_plane,
            "api": _api,
            "checks": _checks,
        }
        pools = {f"{POOL_STEP}{pool.name}": pool for pool in spec.pools}
        answer: Answer
        with self._site(verb) as site:
            if step in pools:
                answer = _pool(site, spec, pools[step])
            elif step.startswith(ADDON_STEP):
                answer = _addon(site, spec, step.removeprefix(ADDON_STEP))
            else:
                answer = base.step_require(do, step)(site, spec)
        if isinstance(answer, NoCapacity):
            raise answer
        return answer


def _network(site: SandboxSite, spec: base.ClusterSpec) -> base.StepOutcome:
    made = [objects.ensure(site, spec, kind, spec.external_name) for kind in (NETWORK, SECURITY_GROUP)]
    return DONE if all(made) else still_going("network")


def _endpoint(site: SandboxSite, spec: base.ClusterSpec) -> base.StepOutcome:
    _founded(site, spec, NETWORK, "network")
    made = objects.ensure(site, spec, ADDRESS, spec.external_name)
    return base.StepOutcome(done=True, detail=entrance.address(spec.ref)) if made else still_going("address")


def _control_plane(site: SandboxSite, spec: base.ClusterSpec) -> base.StepOutcome:
    _founded(site, spec, ADDRESS, "address of the API")
    objects.remove(site, [row for row in things(site, spec.id, MACHINE) if _is_broken_control(row)])
    names = [control_name(spec, number) for number in range(1, spec.control_plane.count + 1)]
    found = [objects.ensure(site, spec, MACHINE, name, pool="", release=spec.release) for name in names]
    machines = [row for row in found if row is not None]
    return _machines(site, machines, len(names), spec.release)


def _api(site: SandboxSite, spec: base.ClusterSpec) -> base.StepOutcome:
    control = [row for row in things(site, spec.id, MACHINE) if not row.facts["pool"]]
    if not control:
        raise NotFound("the control plane is not at the site; it must be created again")
    if not any(map(_is_ready, control)):
        return base.StepOutcome(done=False, detail="the API does not answer yet")
    return base.StepOutcome(done=True, detail=f"{entrance.address(spec.ref)} answers")


def _pool(site: SandboxSite, spec: base.ClusterSpec, pool: base.NodePool) -> Answer:
    """Surplus and broken workers are deleted first: a new one may wait for their devices."""
    if spec.is_burst:
        _founded(site, spec, NETWORK, "network")
    else:
        _founded(site, spec, ADDRESS, "address of the API")
    names = {worker_name(spec, pool, number) for number in range(1, pool.flavor.count + 1)}
    mine = [row for row in things(site, spec.id, MACHINE) if row.facts["pool"] == pool.name]
    objects.remove(site, [row for row in mine if row.name not in names or row.facts.get("fault")])
    going = Thing.objects.filter(pk__in=[row.pk for row in mine], gone_at__isnull=False).count()
    if not names:
        if going:
            return base.StepOutcome(done=False, detail=f"{going} workers are being deleted")
        objects.remove(
            site, [row for row in things(site, spec.id, ROOM) if row.name == room_name(spec, pool)]
        )
        return base.StepOutcome(done=True, detail="no workers")
    if not objects.room_ensure(site, spec, room_name(spec, pool), pool.flavor):
        return still_going("placement group")
    if spec.is_burst:
        entrance.let_in(spec)
    machines = []
    for name in sorted(names):
        row = objects.ensure(site, spec, MACHINE, name, pool=pool.name, release=pool.release)
        if row is not None:
            pod = objects.devices_hold(site, spec, row, room_name(spec, pool), pool.flavor)
            if pod.scheduled_at is None:
                return _no_host(site, pool, pod)
            machines.append(row)
    outcome = _machines(site, machines, len(names), pool.release)
    if outcome.done and going:
        return base.StepOutcome(done=False, detail=f"{going} workers are drained and being deleted")
    return outcome


def _no_host(site: SandboxSite, pool: base.NodePool, pod: SandboxPod) -> NoCapacity:
    """With the site's message; the machine stays, without a host, until it finds one or is removed."""
    return NoCapacity(
        f"no host of {site.slug or 'the site'} has {pool.flavor.gpus} free GPUs for a worker of the pool {pool.name}",
        detail={
            "evidence": [f"{pod.name}: {pod.waiting_for}"],
            "next": "Retry when others have released GPUs, or scale the pool to fewer workers.",
        },
    )


def _addon(site: SandboxSite, spec: base.ClusterSpec, name: str) -> base.StepOutcome:
    _api(site, spec)
    if name not in spec.addons:
        raise Permanent(f"the cluster has no add-on {name!r}")
    made = objects.ensure(site, spec, ADDON, f"{spec.external_name}-{name}")
    return (
        base.StepOutcome(done=True, detail=f"{name} is installed") if made else still_going(f"add-on {name}")
    )


def _checks(site: SandboxSite, spec: base.ClusterSpec) -> base.StepOutcome:
    nodes = [_node(row) for row in things(site, spec.id, MACHINE) if row.gone_at is None]
    wanted = spec.control_plane.count + sum(pool.flavor.count for pool in spec.pools)
    if len(nodes) < wanted:
        raise NotFound(f"{wanted - len(nodes)} machines are missing; they must be created again")
    bad = [node for node in nodes if not node.ready]
    if bad:
        return base.StepOutcome(done=False, detail=f"{bad[0].name}: {bad[0].reason}")
    return base.StepOutcome(done=True, detail=all_ready(len(nodes)))


def _machines(site: SandboxSite, rows: list[Thing], wanted: int, release: str) -> base.StepOutcome:
    """Upgrades one machine at a time, and only while all others are ready."""
    if len(rows) < wanted:
        return base.StepOutcome(
            done=False, detail=f"{wanted - len(rows)} previous machines are still being deleted"
        )
    waiting = [row for row in rows if not _is_ready(row)]
    if waiting:
        return base.StepOutcome(done=False, detail=f"{wanted - len(waiting)} of {wanted} machines answer")
    behind = [row for row in rows if row.facts["release"] != release]
    if not behind:
        return base.StepOutcome(done=True, detail=machines_run(wanted, release))
    row = behind[0]
    row.facts = {**row.facts, "release": release}
    row.ready_at = clock.now() + timedelta(milliseconds=site.machine_ms)
    row.save(update_fields=["facts", "ready_at"])
    if len(behind) == 1 and _is_ready(row):
        return base.StepOutcome(done=True, detail=machines_run(wanted, release))
    return base.StepOutcome(
        done=False, detail=f"{row.name} is being upgraded to {release}; {len(behind) - 1} left"
    )


def _founded(site: SandboxSite, spec: base.ClusterSpec, kind: str, what: str) -> None:
    if not [row for row in things(site, spec.id, kind) if row.gone_at is None]:
        raise NotFound(f"the {what} is not at the site; it must be created again")


def _is_broken_control(row: Thing) -> bool:
    return not row.facts["pool"] and bool(row.facts.get("fault"))


def _is_ready(row: Thing) -> bool:
    return row.ready_at <= clock.now() and not row.facts.get("fault") and row.gone_at is None


def _node(row: Thing) -> base.ClusterNode:
    reason = row.facts.get("fault") or ("" if row.ready_at <= clock.now() else "it is starting")
    if not reason and row.room:
        held = SandboxPod.objects.filter(site=row.site_id, namespace__name=row.room, name=row.name)
        reason = (
            ""
            if held.filter(scheduled_at__isnull=False, finished_at=None).exists()
            else "it has lost its GPUs"
        )
    return base.ClusterNode(
        row.name, row.facts["pool"], row.facts["release"], ready=not reason, reason=reason
    )
