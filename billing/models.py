"""Rate cards: what a unit-hour costs, and when. The past is never edited; see rating.md."""

from decimal import Decimal

from django.db import models
from django.db.models import F, Q

from billing.money import price_of
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.core.ids import uuid7
from gpuaas.metering.models import Meter


class RateCard(models.Model):
    """Prices in one currency. Usage is rated by the default card."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=100)
    currency = models.CharField(max_length=3)
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="rate_card_one_default"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.currency})"


class Rate(models.Model):
    """The price of one unit-hour over [valid_from, valid_to), in millionths of the card's currency.

    flavor is null for vCPU, memory and storage. Migration 0002 refuses two that overlap.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    card = models.ForeignKey(RateCard, on_delete=models.PROTECT, related_name="rates")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="rates")
    meter = models.CharField(max_length=32, choices=Meter)
    price_class = models.CharField(max_length=16, choices=PriceClass, default=PriceClass.ON_DEMAND)
    price_micro = models.PositiveBigIntegerField()
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["flavor__slug", "meter", "valid_from"]
        constraints = [
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")), name="rate_ends_after"
            ),
            models.CheckConstraint(
                condition=Q(flavor__isnull=False) ^ Q(meter__in=["vcpu_held", "memory_held", "storage_held"]),
                name="rate_of_gpus_has_a_flavor",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.meter} of {self.flavor or 'any flavor'} from {self.valid_from:%Y-%m-%d %H:%M}"

    @property
    def price(self) -> Decimal:
        """Per unit-hour, exact."""
        return price_of(self.price_micro)
