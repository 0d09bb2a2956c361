"""States of what is offered."""

from django.db import models


class OfferState(models.TextChoices):
    """Of GPU types and flavors. Discovered or new ones are drafts: visible to operators, not sold."""

    DRAFT = "draft", "Draft"
    ACTIVE = "active", "Active"
    RETIRED = "retired", "Retired"


class PriceClass(models.TextChoices):
    ON_DEMAND = "on_demand", "On demand"
    RESERVED = "reserved", "Reserved"
    SPOT = "spot", "Spot"


class Sharing(models.TextChoices):
    """How one device is cut into what the site counts."""

    WHOLE = "whole", "Whole GPU"
    MIG = "mig", "MIG slice"
    SHARED = "shared", "Time-sliced share"
    DRA = "dra", "DRA device"
