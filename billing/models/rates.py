"""Rate cards: the price of a unit-hour, and when. The past is never edited; see rating.md."""

from decimal import Decimal

from django.db import models
from django.db.models import F, Q

from billing.money import price_of
from gpuaas.catalog.models import STORAGE_PREFIX, Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.core.rows import Identified
from tenants.models import Organization

SHARED_METERS = [
    "vcpu_held",
    "memory_held",
    "storage_held",
    "tokens_in",
    "tokens_out",
]  # one price for all flavors
# of a flavor, or of a resource that was counted without one, or of what all flavors share, or of a storage class that differs from
# plain storage
PRICED_ONCE = (
    Q(flavor__isnull=False, resource_name="") & ~Q(meter__in=SHARED_METERS)
    | Q(flavor__isnull=True) & ~Q(resource_name="") & ~Q(meter__in=SHARED_METERS)
    | Q(flavor__isnull=True, resource_name="", meter__in=SHARED_METERS)
    | Q(flavor__isnull=True, resource_name__startswith=STORAGE_PREFIX, meter="storage_held")
)


class TierMode(models.TextChoices):
    """How volume prices apply in a month: each part at its own price, or everything at the price that was reached."""

    NONE = "", "One price"
    GRADUATED = "graduated", "Graduated"
    VOLUME = "volume", "Volume"


class RateCard(Identified):
    """Prices in one currency. The standard card of a currency has no organization; an organization's own card has the
    prices in which it differs from the standard one. numbers_gone: the highest number of a withdrawn version, which
    is not used again."""

    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, null=True, blank=True, related_name="rate_cards"
    )
    slug = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=150)
    currency = models.CharField(max_length=3)
    numbers_gone = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "currency"], name="rate_card_one_per_currency", nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.currency})"


class RateCardVersion(Identified):
    """A card's price list over [valid_from, valid_from of the next version): gaps and overlaps cannot be written.

    What a version changes are its `rates`; other prices continue. Numbers count publications.
    """

    card = models.ForeignKey(RateCard, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    valid_from = models.DateTimeField()
    note = models.CharField(max_length=300, blank=True)
    published_by = models.CharField(max_length=150)
    published_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-valid_from"]
        constraints = [
            models.UniqueConstraint(fields=["card", "number"], name="rate_version_number_once"),
            models.UniqueConstraint(fields=["card", "valid_from"], name="rate_version_begins_once"),
        ]

    def __str__(self) -> str:
        return f"{self.card} version {self.number}"


class Terms(Identified):
    """Terms of a price beside its number. A session is charged for at least minimum_seconds and in full increments."""

    price_class = models.CharField(max_length=16, choices=PriceClass, default=PriceClass.ON_DEMAND)
    meter = models.CharField(max_length=32)  # metering.models.Meter; a new meter needs no migration here
    increment_seconds = models.PositiveIntegerField(default=1)
    minimum_seconds = models.PositiveIntegerField(default=0)
    tier_mode = models.CharField(max_length=16, choices=TierMode, default=TierMode.NONE, blank=True)
    # what was held beyond what was bought until it was removed, in hundredths of the price
    surplus_percent = models.PositiveIntegerField(default=100)
    # of GPUs that ran without being sold: the name by which their site counts them
    resource_name = models.CharField(max_length=150, blank=True, default="", db_default="")

    class Meta:
        abstract = True


class UsageWriteOff(Identified):
    """An operator's decision that usage of one thing in one meter and month, which has no price, is never charged.

    Its `rates` are prices of zero for the parts of the month that had none; they go with it.
    """

    card = models.ForeignKey(RateCard, on_delete=models.PROTECT, related_name="write_offs")
    month = models.DateField()
    flavor = models.ForeignKey(
        Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="write_offs"
    )
    resource_name = models.CharField(max_length=150, blank=True)
    meter = models.CharField(max_length=32)
    reason = models.CharField(max_length=300)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "pk"]

    def __str__(self) -> str:
        return f"{self.meter} of {self.what} in {self.month:%Y-%m}"

    @property
    def what(self) -> str:
        return self.flavor.slug if self.flavor else self.resource_name


class Rate(Terms):
    """The price of one unit-hour over [valid_from, valid_to), in millionths of the card's currency.

    flavor is null for vCPU, memory and storage, and for GPUs that were counted without a flavor, which have the name
    by which their site counts them (resource_name). With tiers, price_micro is the price of the first unit.
    Migrations 0002 and 0012 refuse overlaps.
    """

    card = models.ForeignKey(RateCard, on_delete=models.PROTECT, related_name="rates")
    version = models.ForeignKey(RateCardVersion, on_delete=models.PROTECT, related_name="rates")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="rates")
    price_micro = models.PositiveBigIntegerField()
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    write_off = models.ForeignKey(
        UsageWriteOff, on_delete=models.CASCADE, null=True, blank=True, related_name="rates"
    )
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["flavor__slug", "resource_name", "meter", "valid_from"]
        constraints = [
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")), name="rate_ends_after"
            ),
            models.CheckConstraint(
                condition=PRICED_ONCE,
                name="rate_is_of_one_thing",
            ),
            models.CheckConstraint(condition=Q(increment_seconds__gte=1), name="rate_increment_is_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.meter} of {self.flavor or self.resource_name or 'any flavor'} from {self.valid_from:%Y-%m-%d %H:%M}"

    @property
    def price(self) -> Decimal:
        """Per unit-hour, exact."""
        return price_of(self.price_micro)


class RateTier(models.Model):
    """From this many unit-hours of a month on, a unit-hour costs this. The first tier is the rate's own price, from
    0."""

    rate = models.ForeignKey(Rate, on_delete=models.CASCADE, related_name="tiers")
    from_unit_hours = models.PositiveBigIntegerField()
    price_micro = models.PositiveBigIntegerField()

    class Meta:
        ordering = ["from_unit_hours"]
        constraints = [
            models.UniqueConstraint(fields=["rate", "from_unit_hours"], name="rate_tier_once"),
            models.CheckConstraint(condition=Q(from_unit_hours__gt=0), name="rate_tier_begins_above_zero"),
        ]

    def __str__(self) -> str:
        return f"{price_of(self.price_micro)} from {self.from_unit_hours} h"

    @property
    def price(self) -> Decimal:
        return price_of(self.price_micro)
