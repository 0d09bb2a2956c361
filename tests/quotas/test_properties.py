"""Any sequence of reservations, resizes, releases and changed limits: the books agree with a simple model of them."""

import uuid
from collections import Counter

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gpuaas.core.errors import Conflict
from quotas.models import Limit, SiteCapacity
from quotas.selectors import counters_mismatches, reservations_held
from quotas.services import (
    reservation_grow,
    reservation_release,
    reservation_reserve,
    reservation_shrink,
)
from tests.factories.catalog import stock_site
from tests.factories.quotas import limits_give
from tests.factories.tenants import OrganizationFactory, ProjectFactory

RESOURCES = ["gpu:h100-sxm-80gb", "gpu:l40s-48gb", "vcpu", "storage"]
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 9), max_size=4)


class Books(RuleBasedStateMachine):
    """`held` is the model: holder → (project, amounts)."""

    holders: Bundle[uuid.UUID] = Bundle("holders")

    @initialize()
    def stock(self) -> None:
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.site = stock_site()
        organization = OrganizationFactory.create()
        self.projects = ProjectFactory.create_batch(2, organization=organization)
        for project in self.projects:
            limits_give(project, {RESOURCES[0]: 12, "vcpu": 20})
        self.held: dict[uuid.UUID, tuple[int, dict[str, int]]] = {}

    def total(self, resource: str, project: int | None = None) -> int:
        return sum(
            amounts.get(resource, 0)
            for owner, amounts in self.held.values()
            if project is None or owner == project
        )

    def room(self, project: int, more: dict[str, int]) -> bool:
        for resource, amount in more.items():
            limit = Limit.objects.get(project=self.projects[project], resource=resource).hard
            shared = Limit.objects.get(
                organization=self.projects[project].organization, resource=resource
            ).hard
            sellable = SiteCapacity.objects.get(resource=resource).hard
            tops = [(limit, self.total(resource, project)), (shared, self.total(resource))]
            tops.append((sellable, self.total(resource)))
            if amount and any(top is not None and used + amount > top for top, used in tops):
                return False
        return True

    @rule(target=holders, project=st.integers(0, 1), amounts=AMOUNTS)
    def reserve(self, project: int, amounts: dict[str, int]) -> uuid.UUID:
        holder = uuid.uuid4()
        fits = self.room(project, amounts)
        try:
            reservation_reserve(
                holder_kind="workspace",
                holder_id=holder,
                project=self.projects[project],
                site=self.site,
                amounts=amounts,
            )
        except Conflict:
            assert not fits
            return holder
        assert fits
        self.held[holder] = (project, {key: amount for key, amount in amounts.items() if amount})
        return holder

    @rule(holder=holders, amounts=AMOUNTS)
    def resize(self, holder: uuid.UUID, amounts: dict[str, int]) -> None:
        project, old = self.held.get(holder, (0, {}))
        more = {key: max(amount - old.get(key, 0), 0) for key, amount in amounts.items()}
        fits = bool(old) and self.room(project, more)
        try:
            reservation_grow(holder_kind="workspace", holder_id=holder, amounts=amounts)
        except Conflict:
            assert not fits
            return
        assert fits
        reservation_shrink(holder_kind="workspace", holder_id=holder, amounts=amounts)
        self.held[holder] = (project, {key: amount for key, amount in amounts.items() if amount})

    @rule(holder=holders)
    def release(self, holder: uuid.UUID) -> None:
        held = self.held.pop(holder, None)
        assert reservation_release(holder_kind="workspace", holder_id=holder) == bool(held and held[1])

    @rule(project=st.integers(0, 1), resource=st.sampled_from(RESOURCES), hard=st.none() | st.integers(0, 30))
    def lower(self, project: int, resource: str, hard: int | None) -> None:
        Limit.objects.filter(project=self.projects[project], resource=resource).update(hard=hard)

    def teardown(self) -> None:
        if hasattr(self, "transaction"):
            transaction.set_rollback(True)
            self.transaction.__exit__(None, None, None)

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "held"):
            return
        assert counters_mismatches() == []
        counters: Counter[str] = Counter(dict(SiteCapacity.objects.values_list("resource", "used")))
        for resource in RESOURCES:
            assert counters[resource] == self.total(resource)
        for holder, (_, amounts) in self.held.items():
            assert reservations_held(holder_kind="workspace", holder_id=holder) == amounts


@pytest.mark.django_db
def test_books_agree_after_anything(examples: int) -> None:
    run_state_machine_as_test(
        Books,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
