"""Price lists that operators still work on. Nothing is charged by them."""

from decimal import Decimal

from django.db import models
from django.db.models import Q

from billing.models.rates import SHARED_METERS, RateCard, RateCardVersion, Terms
from billing.money import price_of
from gpuaas.catalog.models import Flavor
from gpuaas.core.ids import uuid7


class RateDraft(models.Model):
    """The next version of a card: the whole list of its prices. One open draft per card; published ones stay, read-only."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    draft = models.ForeignKey(RateDraft, on_delete=models.CASCADE, related_name="lines")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    price_micro = models.PositiveBigIntegerField()
    tiers = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["flavor__slug", "meter"]
        constraints = [
            models.UniqueConstraint(
                fields=["draft", "flavor", "meter", "price_class"],
                name="rate_draft_line_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(flavor__isnull=False) ^ Q(meter__in=SHARED_METERS),
                name="rate_draft_line_of_gpus_has_a_flavor",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.meter} of {self.flavor or 'any flavor'} in {self.draft}"

    @property
    def price(self) -> Decimal:
        return price_of(self.price_micro)
