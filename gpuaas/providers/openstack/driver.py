"""The driver: the contract's verbs, each handed to the module that does it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from gpuaas.core.errors import NotFound
from gpuaas.providers import base
from gpuaas.providers.openstack import (
    adoption,
    changes,
    drift,
    ensure,
    flavors,
    inventory,
    observe,
    people,
    preflight,
    projects,
    release,
    settings,
    suspend,
    usage,
    volume_types,
    warden,
)
from gpuaas.providers.openstack.classes import OPTION, Classes
from gpuaas.providers.openstack.client import Cloud, shared
from gpuaas.providers.openstack.dry_run import DryRun, Reading
from gpuaas.providers.openstack.ensure import Ensure
from gpuaas.providers.openstack.machine_cache import machine_cache_of
from gpuaas.providers.openstack.machines import OpenStackMachines


class OpenStackDriver(
    base.Driver,
    base.AccessCapability,
    base.UsageCapability,
    base.DriftCapability,
    base.WardenCapability,
    base.PreflightCapability,
    base.AdoptionCapability,
    base.OfferCapability,
    OpenStackMachines,
):
    """Credentials are those of an admin account; for credentials and options see `kind.py`.

    A project is deleted at least `token_cache_seconds` after its last member: services accept a token for that long.
    """

    name = "openstack"
    changes = {
        base.Change.CREATE: ensure.STEPS,
        base.Change.RESIZE: ensure.STEPS,
        base.Change.SUSPEND: suspend.SUSPEND_STEPS,
        base.Change.RESUME: suspend.RESUME_STEPS,
        base.Change.DELETE: release.STEPS,
    }
    access_kind = base.AccessKind.CLOUDS_YAML
    fixed_options = frozenset({"domain"})
    disk_gib = 40  # tenants may not create machines without a disk

    @classmethod
    def options_check(cls, options: Mapping[str, Any]) -> None:
        super().options_check(options)
        settings.options_check(options)

    @classmethod
    def credentials_check(cls, credentials: Mapping[str, Any]) -> None:
        settings.credentials_check(credentials)

    @cached_property
    def _cloud(self) -> Cloud:
        return shared(self.connection.credentials)

    @cached_property
    def _usage(self) -> usage.UsageStream:
        history = timedelta(days=settings.history_days(self.connection.options))
        return usage.UsageStream(self._cloud, machine_cache_of(self.connection.site_id), history=history)

    @property
    def _domain(self) -> str:
        return str(self.connection.options.get("domain") or projects.DOMAIN)

    @property
    def _aliases(self) -> Mapping[str, str]:
        given = self.connection.options.get("aliases") or {}
        return {str(name): str(alias) for name, alias in given.items()}

    @property
    def _named(self) -> Classes:
        """Without aliases, which are read at the site."""
        return Classes(self.connection.options.get(OPTION) or {})

    @cached_property
    def _classes(self) -> Classes:
        return inventory.with_aliases(Reading(self._cloud), self._named, self._aliases)

    def probe(self) -> base.Inventory:
        found = inventory.take(
            self._cloud, self.connection.site_id, self._named, self._aliases, self.connection.sold
        )
        marked = projects.holders_marked(self._cloud, domain=self._domain)
        return replace(found, marked=marked, storage_classes=volume_types.classes(self._cloud))

    def perform(self, change: base.Change, spec: base.WorkspaceSpec, step: str) -> base.StepOutcome:
        made = self._ensure(self._cloud, spec)
        match change:
            case base.Change.DELETE:
                believed = timedelta(seconds=int(self.connection.options.get("token_cache_seconds") or 0))
                return release.Release(self._cloud, spec.ref, domain=self._domain, believed=believed).run(
                    step
                )
            case base.Change.SUSPEND:
                return suspend.Suspend(self._cloud, spec, made).run(step)
            case base.Change.RESUME:
                return suspend.Resume(self._cloud, spec, made).run(step)
        return made.run(step)

    def offers_set(self, sold: tuple[base.FlavorAmount, ...], retired: tuple[str, ...]) -> None:
        flavors.offers_set(self._cloud, sold, retired)

    def preflight(self) -> tuple[base.Check, ...]:
        site_id = self.connection.site_id
        site = preflight.Site(site_id, self._cloud, self._domain, self._external, self._named, self.probe)
        return preflight.run(site)

    @property
    def _external(self) -> str:
        return str(self.connection.options.get("external_network") or "")

    def _ensure(self, cloud: Cloud, spec: base.WorkspaceSpec, *, dry_run: bool = False) -> Ensure:
        return Ensure(
            cloud, spec, domain=self._domain, external=self._external, dry_run=dry_run, classes=self._named
        )

    def observe(self, ref: base.WorkspaceRef) -> base.ObservedWorkspace:
        cache = machine_cache_of(self.connection.site_id)
        return observe.observe(self._cloud, ref, self._classes, cache, domain=self._domain)

    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[base.UsageEvent]:
        """Use one driver object for consecutive windows: it caches machines. GPU types may be added between two windows."""
        self.__dict__.pop("_classes", None)
        return self._usage.watch(cursor, classes=self._classes, seconds=seconds)

    def evict(self, workspace_name: str, consumer: base.ObservedConsumer, *, reason: str) -> bool:
        del workspace_name  # a machine's id is unique at the site
        policy = settings.surplus_policy(self.connection.options)
        machine, seen = consumer.uid.partition(":")[0], consumer.gpus
        return warden.evict(self._cloud, machine, reason=reason, policy=policy, devices=seen)

    def drift(self, spec: base.WorkspaceSpec) -> tuple[base.Difference, ...]:
        return drift.drift(self._cloud, lambda dry_run: self._run_dry(dry_run, spec))

    def _run_dry(self, dry_run: DryRun, spec: base.WorkspaceSpec) -> tuple[base.Difference, ...]:
        ours = self._ensure(dry_run, spec, dry_run=True)
        return drift.differences(dry_run, ensure.STEPS, ours.run)

    def site_repair(self) -> tuple[base.Difference, ...]:
        return drift.site_repair(self._cloud)

    def watch_changes(self, cursor: str, *, seconds: int) -> Iterator[base.SiteChange]:
        return changes.watch_changes(self._cloud, cursor, domain=self._domain, seconds=seconds)

    def adoptable(self) -> tuple[base.ForeignWorkspace, ...]:
        return adoption.adoptable(
            Reading(self._cloud), self._classes, domain=self._domain, sites_own=self._sites_own
        )

    def adoption_plan(self, spec: base.WorkspaceSpec) -> tuple[base.AdoptionStep, ...]:
        return self._adoption(spec).steps()

    def adopt(self, spec: base.WorkspaceSpec) -> base.StepOutcome:
        return adoption.adopt(self._adoption(spec))

    def _adoption(self, spec: base.WorkspaceSpec) -> adoption.Plan:
        return adoption.Plan(
            self._cloud,
            spec,
            lambda dry_run: self._run_dry(dry_run, spec),
            self._named,
            domain=self._domain,
            sites_own=self._sites_own,
        )

    @property
    def _sites_own(self) -> tuple[str, ...]:
        return tuple(map(str, self.connection.options.get("sites_projects") or ()))

    def issue_access(
        self, ref: base.WorkspaceRef, member: base.Member, *, lifetime: timedelta
    ) -> base.Access:
        project = projects.own_project(self._cloud, ref.external_name, ref.id, domain=self._domain)
        if project is None:
            raise NotFound(f"{ref.external_name} is not at the site")
        return people.issue(self._cloud, ref, project, member, lifetime=lifetime)

    def revoke_access(self, ref: base.WorkspaceRef, member: base.Member) -> None:
        project = projects.own_project(self._cloud, ref.external_name, ref.id, domain=self._domain)
        if project is not None:
            people.revoke(self._cloud, project, member)
