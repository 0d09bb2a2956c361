"""Who a person is on the machines of a project's Slurm clusters."""

from django.db import models
from django.db.models import Q

from gpuaas.clusters.logins import LAST_UID, LOGIN_MAX, UIDS
from tenants.models import Project, User


class ClusterLogin(models.Model):
    """The name and number of a person on machines of a project's clusters: given once, and never to anybody else, for
    files and accounting go by them. Whether the person may enter is not stored: memberships decide at each question."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="cluster_logins")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=LOGIN_MAX)
    uid = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="cluster_login_once_per_person"),
            models.UniqueConstraint(fields=["project", "name"], name="cluster_login_name_once"),
            models.UniqueConstraint(fields=["project", "uid"], name="cluster_login_uid_once"),
            models.CheckConstraint(
                condition=Q(uid__gte=UIDS, uid__lte=LAST_UID), name="cluster_login_uid_in_range"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ClusterUse(models.Model):
    """GPU-seconds that jobs of a login had on one day of the billing time zone, as the head's accounting last reported.
    For people to see; charges follow what the cluster held, never this."""

    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.CASCADE, related_name="use")
    login = models.ForeignKey(ClusterLogin, on_delete=models.PROTECT, related_name="use")
    day = models.DateField()
    gpu_seconds = models.PositiveBigIntegerField()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "day", "login"], name="cluster_use_once_per_day")
        ]

    def __str__(self) -> str:
        return f"{self.login} on {self.day}"
