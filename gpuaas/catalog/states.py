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


class DriftPolicy(models.TextChoices):
    """Repair: changes made by others are reverted. Observe: they are recorded, and an operator decides."""

    REPAIR = "repair", "Repair"
    OBSERVE = "observe", "Only observe"


class NodeCheckState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    PASSED = "passed", "Passed"
    FAILED = "failed", "Failed"


class RoundKind(models.TextChoices):
    PREFLIGHT = "preflight", "Preflight"
    HEALTH = "health", "Health of the GPUs"
    OFFERS = "offers", "What is sold, made there"


class HugepagesSize(models.TextChoices):
    MIB_2 = "2Mi", "2 MiB"
    GIB_1 = "1Gi", "1 GiB"


class Sharing(models.TextChoices):
    """How one device is divided into what the site counts."""

    WHOLE = "whole", "Whole GPU"
    MIG = "mig", "MIG slice"
    SHARED = "shared", "Time-sliced share"
    DRA = "dra", "DRA device"
