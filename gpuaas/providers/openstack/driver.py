"""The driver: the contract's verbs, each handed to the module that does it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import (
    Access,
    AccessCapability,
    AccessKind,
    AdoptionCapability,
    AdoptionStep,
    Check,
    Difference,
    DriftCapability,
    Driver,
    FlavorAmount,
    ForeignWorkspace,
    Inventory,
    Member,
    ObservedConsumer,
    ObservedWorkspace,
    OfferCapability,
    PreflightCapability,
    SiteChange,
    StepOutcome,
    StepSpec,
    SuspendCapability,
    UsageCapability,
    UsageEvent,
    WardenCapability,
    WorkspaceRef,
    WorkspaceSpec,
)
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
    warden,
)
from gpuaas.providers.openstack.book import book_of
from gpuaas.providers.openstack.client import Cloud, shared
from gpuaas.providers.openstack.ensure import Ensure
from gpuaas.providers.openstack.machine_verbs import OpenStackMachines
from gpuaas.providers.openstack.rehearsal import Reading, Rehearsal


class OpenStackDriver(
    Driver,
    AccessCapability,
    UsageCapability,
    SuspendCapability,
    DriftCapability,
    WardenCapability,
    PreflightCapability,
    AdoptionCapability,
    OfferCapability,
    OpenStackMachines,
):
    """Credentials of an account that is admin: `clouds_yaml`, a document, and `cloud`, which of its clouds; or `auth_url`,
    `application_credential_id` and `application_credential_secret`. `region_name` where there are several.

    Options: `domain` (id, of projects and users; default), `external_network` (what routers lead to; none), `aliases`
    (resource class → alias of Nova's [pci] configuration; guessed from the site's flavors), `sites_projects` (patterns of
    names that nobody may take over, beside the usual ones), `token_cache_seconds` (for how long services believe a token
    that they have seen, their token_cache_time; a project goes no sooner after its last member. 0), `surplus_machines`
    (what becomes of a machine beyond what was bought: shelve, which keeps its disk, or delete; shelve), `history_days` (for
    how long Nova's database keeps machines that were deleted; 30).
    """

    name = "openstack"
    access_kind = AccessKind.CLOUDS_YAML
    fixed_options = frozenset({"domain"})
    disk_gib = 40  # a machine without one may not be made by a tenant

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
        return usage.UsageStream(self._cloud, book_of(self.connection.site_id), history=history)

    @property
    def _domain(self) -> str:
        return str(self.connection.options.get("domain") or projects.DOMAIN)

    @property
    def _aliases(self) -> Mapping[str, str]:
        given = self.connection.options.get("aliases") or {}
        return {str(name): str(alias) for name, alias in given.items()}

    @cached_property
    def _classes(self) -> dict[str, str]:
        """Alias → resource class."""
        cloud = Reading(self._cloud)
        known = inventory.alias_map(cloud, self._aliases, inventory.gpu_classes(cloud))
        return {alias: name for name, alias in known.items()}

    def _parts(self) -> tuple[Cloud, Mapping[str, str], str]:
        return self._cloud, self._classes, self._domain

    def probe(self) -> Inventory:
        return inventory.take(self._cloud, self.connection.site_id, self._aliases)

    def ensure_steps(self) -> tuple[StepSpec, ...]:
        return ensure.STEPS

    def ensure(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        return self._ensure(self._cloud, spec).run(step)

    def offers_set(self, sold: tuple[FlavorAmount, ...], retired: tuple[str, ...]) -> None:
        flavors.offers_set(self._cloud, sold, retired)

    def suspend_steps(self) -> tuple[StepSpec, ...]:
        return suspend.SUSPEND_STEPS

    def suspend(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        return suspend.Suspend(self._cloud, spec, self._ensure(self._cloud, spec)).run(step)

    def resume_steps(self) -> tuple[StepSpec, ...]:
        return suspend.RESUME_STEPS

    def resume(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        return suspend.Resume(self._cloud, spec, self._ensure(self._cloud, spec)).run(step)

    def preflight(self) -> tuple[Check, ...]:
        site_id = self.connection.site_id
        site = preflight.Site(site_id, self._cloud, self._domain, self._external, self.probe)
        return preflight.run(site)

    @property
    def _external(self) -> str:
        return str(self.connection.options.get("external_network") or "")

    def _ensure(self, cloud: Cloud, spec: WorkspaceSpec, *, rehearsed: bool = False) -> Ensure:
        return Ensure(cloud, spec, domain=self._domain, external=self._external, rehearsed=rehearsed)

    def release_steps(self) -> tuple[StepSpec, ...]:
        return release.STEPS

    def release(self, ref: WorkspaceRef, step: str) -> StepOutcome:
        believed = timedelta(seconds=int(self.connection.options.get("token_cache_seconds") or 0))
        return release.Release(self._cloud, ref, domain=self._domain, believed=believed).run(step)

    def observe(self, ref: WorkspaceRef) -> ObservedWorkspace:
        book = book_of(self.connection.site_id)
        return observe.observe(self._cloud, ref, self._classes, book, domain=self._domain)

    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
        """Use one driver for window after window: it remembers what it has read. Types of GPUs may come between two."""
        self.__dict__.pop("_classes", None)
        return self._usage.watch(cursor, classes=self._classes, seconds=seconds)

    def evict(self, workspace_name: str, consumer: ObservedConsumer, *, reason: str) -> bool:
        del workspace_name  # a machine's id is unique at the site
        policy = settings.surplus_policy(self.connection.options)
        machine, seen = consumer.uid.partition(":")[0], consumer.gpus
        return warden.evict(self._cloud, machine, reason=reason, policy=policy, devices=seen)

    def drift(self, spec: WorkspaceSpec) -> tuple[Difference, ...]:
        return drift.drift(self._cloud, lambda rehearsal: self._rehearse(rehearsal, spec))

    def _rehearse(self, rehearsal: Rehearsal, spec: WorkspaceSpec) -> tuple[Difference, ...]:
        ours = self._ensure(rehearsal, spec, rehearsed=True)
        return drift.differences(rehearsal, ensure.STEPS, ours.run)

    def site_repair(self) -> tuple[Difference, ...]:
        return drift.site_repair(self._cloud)

    def watch_changes(self, cursor: str, *, seconds: int) -> Iterator[SiteChange]:
        return changes.watch_changes(self._cloud, cursor, domain=self._domain, seconds=seconds)

    def adoptable(self) -> tuple[ForeignWorkspace, ...]:
        return adoption.adoptable(
            Reading(self._cloud), self._classes, domain=self._domain, sites_own=self._sites_own
        )

    def adoption_plan(self, spec: WorkspaceSpec) -> tuple[AdoptionStep, ...]:
        return self._adoption(spec).steps()

    def adopt(self, spec: WorkspaceSpec) -> StepOutcome:
        return adoption.adopt(self._adoption(spec))

    def _adoption(self, spec: WorkspaceSpec) -> adoption.Plan:
        return adoption.Plan(
            self._cloud,
            spec,
            lambda rehearsal: self._rehearse(rehearsal, spec),
            domain=self._domain,
            sites_own=self._sites_own,
        )

    @property
    def _sites_own(self) -> tuple[str, ...]:
        return tuple(map(str, self.connection.options.get("sites_projects") or ()))

    def issue_access(self, ref: WorkspaceRef, member: Member, *, lifetime: timedelta) -> Access:
        project = projects.own_project(self._cloud, ref.external_name, ref.id, domain=self._domain)
        if project is None:
            raise NotFound(f"{ref.external_name} is not at the site")
        return people.issue(self._cloud, ref, project, member, lifetime=lifetime)

    def revoke_access(self, ref: WorkspaceRef, member: Member) -> None:
        project = projects.own_project(self._cloud, ref.external_name, ref.id, domain=self._domain)
        if project is not None:
            people.revoke(self._cloud, project, member)
