"""A policy as a person types it: bounds, delays and caps, and the settings by the schema of its kind."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from frontend.forms import WHOLE, Form, PlainDecimalField, choices_set, refuse
from frontend.forms.clusters import field_of, posted_of
from gpuaas.clusters.models import ScalingPolicy
from gpuaas.clusters.policies.registry import Kind
from gpuaas.clusters.services import PolicyTerms
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Document
from gpuaas.core.schema_form import document_of, fields_of, form_of

SETTINGS = "settings."
DEFAULTS = PolicyTerms("", 0, 0)


def whole(label: str, initial: int, help_text: str = "") -> forms.IntegerField:
    return forms.IntegerField(label=label, initial=initial, help_text=help_text, error_messages=WHOLE)


class PolicyForm(Form):
    """Names are those of the service, so that its refusals find their fields."""

    pool = forms.ChoiceField(label="Pool")
    minimum = whole("Minimum", 0)
    maximum = whole("Maximum", 1)
    step = whole("Workers per change", DEFAULTS.step, "The most that one change adds or removes.")
    up_delay = whole("Scale-up delay", DEFAULTS.up_delay, "How long more workers must be needed.")
    down_delay = whole("Scale-down delay", DEFAULTS.down_delay, "How long fewer workers must be enough.")
    cool_down = whole("Cool-down", DEFAULTS.cool_down, "The least time between two changes.")
    gpu_hours_month = forms.IntegerField(
        label="GPU-hours per month", required=False, error_messages={"invalid": "Enter a whole number."}
    )
    money_month = PlainDecimalField(
        label="Cost per month", required=False, error_messages={"invalid": "An amount such as 250.00."}
    )
    after = forms.ChoiceField(
        label="Only after",
        required=False,
        help_text="A pool at another site can wait until this pool at the cluster's own site cannot grow.",
    )
    enabled = forms.BooleanField(label="Enabled", required=False)
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        *args: Any,
        kind: Kind,
        pools: Sequence[tuple[str, str]],
        first: Sequence[tuple[str, str]] = (),
        stays: bool = False,
        **kwargs: Any,
    ) -> None:
        """stays: the policy is there, so its pool is not chosen."""
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.leaves = fields_of(kind.schema)
        widget = forms.HiddenInput if stays else forms.Select
        self.fields["pool"] = forms.ChoiceField(label="Pool", choices=pools, widget=widget)
        self.can_wait = bool(first)
        choices_set(self, "after", [("", "no other pool"), *first])
        for leaf in self.leaves:
            self.fields[SETTINGS + leaf.name] = field_of(leaf)
        self.settings: Document = {}

    def settings_fields(self) -> list[forms.BoundField]:
        return [self[SETTINGS + leaf.name] for leaf in self.leaves]

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        try:
            self.settings = document_of(self.kind.schema, posted_of(self, self.leaves, SETTINGS))
        except Invalid as error:
            refuse(self, error, fields={name: SETTINGS + name for name in error.fields})
        return found

    def terms(self) -> PolicyTerms:
        names = ("minimum", "maximum", "step", "up_delay", "down_delay", "cool_down")
        caps = ("gpu_hours_month", "money_month", "after", "enabled")
        asked: Mapping[str, Any] = self.cleaned_data
        return PolicyTerms(
            kind=self.kind.name, settings=self.settings, **{name: asked[name] for name in (*names, *caps)}
        )


def initial_of(policy: ScalingPolicy, kind: Kind) -> dict[str, Any]:
    terms = [name for name in PolicyForm.base_fields if name != "pool"]
    settings = form_of(kind.schema, policy.settings) if policy.kind == kind.name else {}
    return {
        "pool": policy.pool.name,
        **{name: getattr(policy, name) for name in terms},
        **{SETTINGS + name: value for name, value in settings.items()},
    }
