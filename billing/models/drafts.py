"""Price lists that operators work on. Nothing is charged by them."""

from decimal import Decimal

from django.db import models
from django.db.models import Q

from billing.models.rates import PRICED_ONCE, RateCard, RateCardVersion, Terms
from billing.money import price_of
from gpuaas.catalog.models import Flavor
from gpuaas.core.rows import Identified


class RateDraft(Identified):
    """The next version of a card: the complete list of its prices. One open draft per card; published ones stay,
    read-only."""

    card = models.ForeignKey(RateCard, on_delete=models.PROTECT, related_name="drafts")
    valid_from = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=300, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    published = models.OneToOneField(
        RateCardVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="draft"
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["card"], condition=Q(published__isnull=True), name="rate_draft_one_open"
            )
        ]

    def __str__(self) -> str:
        return f"draft of {self.card}"


class RateDraftLine(Terms):
    """One price of a draft. tiers: [[from unit-hours, millionths], …], ascending, without the first."""

    draft = models.ForeignKey(RateDraft, on_delete=models.CASCADE, related_name="lines")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    price_micro = models.PositiveBigIntegerField()
    tiers = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["flavor__slug", "resource_name", "meter"]
        constraints = [
            models.UniqueConstraint(
                fields=["draft", "flavor", "resource_name", "meter", "price_class"],
                name="rate_draft_line_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=PRICED_ONCE,
                name="rate_draft_line_is_of_one_thing",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.meter} of {self.flavor or self.resource_name or 'any flavor'} in {self.draft}"

    @property
    def price(self) -> Decimal:
        return price_of(self.price_micro)
