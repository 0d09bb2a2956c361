"""Organizations, projects, people, API tokens and the audit log."""

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from gpuaas.core.ids import uuid7
from gpuaas.core.rows import Identified
from tenants.roles import OrganizationRole, PlatformRole, ProjectRole

slug_validator = RegexValidator(
    r"\A[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\Z",
    "use 1 to 40 lower-case letters, digits and hyphens; start and end with a letter or digit",
)


class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    platform_role = models.CharField(
        max_length=16, choices=PlatformRole, default=PlatformRole.NONE, blank=True
    )
    time_zone = models.CharField(max_length=64, default="Europe/Berlin")
    version = models.PositiveBigIntegerField(default=1, db_default=1)  # of name and address

    def __str__(self) -> str:
        return self.username


class Organization(Identified):
    """The billing account."""

    slug = models.CharField(max_length=40, unique=True, validators=[slug_validator])
    name = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class Project(Identified):
    """A team inside an organization. Its slug is unique on the platform, because people type it."""

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="projects")
    slug = models.CharField(max_length=40, unique=True, validators=[slug_validator])
    name = models.CharField(max_length=100)
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class OrganizationMembership(models.Model):
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="organization_memberships")
    role = models.CharField(max_length=16, choices=OrganizationRole)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organization", "user"], name="organization_member_once"),
            models.CheckConstraint(
                condition=Q(role__in=OrganizationRole.values), name="organization_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role} of {self.organization}"


class ProjectMembership(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="project_memberships")
    role = models.CharField(max_length=16, choices=ProjectRole)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="project_member_once"),
            models.CheckConstraint(condition=Q(role__in=ProjectRole.values), name="project_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role} of {self.project}"


class ApiToken(Identified):
    """`gpa_<prefix>_<secret>`: the prefix finds the row; only a SHA-256 of the secret (256 random bits) is stored."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tokens")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, unique=True)
    secret_hash = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class Tries(Identified):
    """Wrong passwords and codes, and where somebody has signed in (services/tries.py).

    `account` is the id of one, or a digest of a typed name that is none; "" counts all of them. `network` is where the
    tries came from; "" counts all from which the account has not signed in before.
    """

    account = models.CharField(max_length=64)
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="tries")
    network = models.CharField(max_length=43)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    signed_in_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "tries"
        constraints = [models.UniqueConstraint(fields=["account", "network"], name="tries_once")]

    def __str__(self) -> str:
        return f"{self.user or 'everybody'} from {self.network or 'new addresses'}"


class AuditEntry(models.Model):
    """Append-only: a trigger in the database refuses UPDATE and DELETE (migration `audit_append_only`)."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=150)
    actor_id = models.UUIDField(null=True)
    token_prefix = models.CharField(max_length=12, blank=True)
    action = models.CharField(max_length=64)
    target_kind = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    target_name = models.CharField(max_length=200)
    organization_id = models.UUIDField(null=True, db_index=True)
    project_id = models.UUIDField(null=True, db_index=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    request_id = models.CharField(max_length=64, blank=True)
    ip = models.GenericIPAddressField(null=True)

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["actor", "-id"], name="audit_actor_idx"),
            models.Index(fields=["action", "-id"], name="audit_action_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target_name}"
