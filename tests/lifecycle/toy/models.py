"""Notebooks: their states, and their four tables. The app is not installed; a test creates the tables."""

from django.db import models

from gpuaas.catalog.models import Site
from gpuaas.core.statemachine import TransitionRow
from gpuaas.lifecycle.allowed import Allowed, Verb, once_ready, while_asleep
from gpuaas.lifecycle.models import Provisioned, name_once
from gpuaas.lifecycle.operations import OperationRow, StepRow, open_once
from gpuaas.lifecycle.states import life_allowed, life_changing, life_machine
from tenants.models import Project


class NotebookState(models.TextChoices):
    REQUESTED = "requested", "Requested"
    PROVISIONING = "provisioning", "Provisioning"
    READY = "ready", "Ready"
    SUSPENDING = "suspending", "Suspending"
    SUSPENDED = "suspended", "Suspended"
    RESUMING = "resuming", "Resuming"
    FAILED = "failed", "Failed"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = NotebookState
CHANGING = life_changing(S, {})
MACHINE = life_machine(S, (), {})
ALLOWED = {
    **life_allowed(S),
    Verb.SUSPEND: Allowed(frozenset({S.READY}), once_ready),
    Verb.RESUME: Allowed(frozenset({S.SUSPENDED}), while_asleep),
}


class Notebook(Provisioned):
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=40)
    state = models.CharField(max_length=16, choices=S, default=S.REQUESTED)
    vcpus = models.PositiveIntegerField()

    class Meta(Provisioned.Meta):
        app_label = "toy"
        constraints = [name_once("notebook_name_once")]

    def __str__(self) -> str:
        return self.name


class NotebookTransition(TransitionRow):
    subject = models.ForeignKey(Notebook, on_delete=models.CASCADE, related_name="transitions")

    class Meta(TransitionRow.Meta):
        app_label = "toy"


class NotebookOperation(OperationRow):
    notebook = models.ForeignKey(Notebook, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=16)

    class Meta(OperationRow.Meta):
        app_label = "toy"
        constraints = [open_once("notebook", "notebook_operation_one_open")]


class NotebookStep(StepRow):
    operation = models.ForeignKey(NotebookOperation, on_delete=models.CASCADE, related_name="steps")

    class Meta(StepRow.Meta):
        app_label = "toy"
