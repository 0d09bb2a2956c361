"""Flavors, organizations, people and prices, as operators type them."""

from datetime import datetime

from django import forms

from frontend.forms.lease import moment_field
from gpuaas.catalog.states import DriftPolicy, HugepagesSize, PriceClass
from gpuaas.metering.models import Meter
from tenants.roles import OrganizationRole, PlatformRole

WHOLE = {"invalid": "A whole number, please.", "required": "Say how many."}


class FactorForm(forms.Form):
    oversubscription_percent = forms.IntegerField(label="Oversubscription", error_messages=WHOLE)


class DriftPolicyForm(forms.Form):
    drift_policy = forms.ChoiceField(
        label="When somebody else changes what the portal has set",
        choices=DriftPolicy,
        widget=forms.RadioSelect,
        error_messages={"required": "Choose one of the two."},
    )


class FlavorForm(forms.Form):
    slug = forms.CharField(
        label="Short name", max_length=64, error_messages={"required": "Give it a short name."}
    )
    name = forms.CharField(max_length=100, error_messages={"required": "Give it a name."})
    gpus = forms.IntegerField(label="GPUs", initial=1, min_value=1, max_value=1024, error_messages=WHOLE)
    vcpus = forms.IntegerField(label="vCPU", min_value=1, max_value=100_000, error_messages=WHOLE)
    memory_gib = forms.IntegerField(label="Memory", min_value=1, max_value=1_000_000, error_messages=WHOLE)
    disk_gib = forms.IntegerField(
        label="Disk", initial=0, min_value=0, max_value=10_000_000, error_messages=WHOLE
    )
    price_class = forms.ChoiceField(label="Price class", choices=PriceClass)
    whole_node = forms.BooleanField(label="Sold by the whole node", required=False)
    exclusive_cpus = forms.BooleanField(label="Whole cores of its own", required=False)
    hugepages_size = forms.ChoiceField(
        label="Hugepages", choices=[("", "none"), *HugepagesSize.choices], required=False
    )
    hugepages_gib = forms.IntegerField(
        label="Of them", min_value=0, max_value=1_000_000, required=False, error_messages=WHOLE
    )
    profile = forms.CharField(label="Node profile", max_length=63, required=False)
    sysctls = forms.CharField(
        label="Sysctls that pods may set", max_length=4000, required=False, widget=forms.Textarea({"rows": 2})
    )

    def clean_hugepages_gib(self) -> int:
        return self.cleaned_data["hugepages_gib"] or 0

    def clean_sysctls(self) -> list[str]:
        """One a line, or with commas or spaces between."""
        return str(self.cleaned_data["sysctls"]).replace(",", " ").split()


class SellForm(forms.Form):
    """What a new GPU type is to cost: it is offered once it has a price."""

    price = forms.CharField(max_length=40, error_messages={"required": "Write a price, for example 2.40."})


class OrganizationForm(forms.Form):
    slug = forms.CharField(
        label="Short name", max_length=40, error_messages={"required": "Give it a short name."}
    )
    name = forms.CharField(max_length=100, error_messages={"required": "Give it a name."})
    owner = forms.CharField(label="Owner", max_length=150, required=False)


class ProjectForm(forms.Form):
    slug = forms.CharField(
        label="Short name", max_length=40, error_messages={"required": "Give it a short name."}
    )
    name = forms.CharField(max_length=100, error_messages={"required": "Give it a name."})


class OwnerForm(forms.Form):
    user = forms.CharField(
        label="User name", max_length=150, error_messages={"required": "Write the user name."}
    )
    role = forms.ChoiceField(choices=OrganizationRole)


class PersonForm(forms.Form):
    username = forms.CharField(
        label="User name", max_length=150, error_messages={"required": "Give them a user name."}
    )
    email = forms.EmailField(
        label="E-mail", error_messages={"required": "Write an address.", "invalid": "This is not an address."}
    )
    first_name = forms.CharField(label="First name", max_length=150, required=False)
    last_name = forms.CharField(label="Last name", max_length=150, required=False)
    platform_role = forms.ChoiceField(label="Role on the platform", choices=PlatformRole, required=False)


class RateForm(forms.Form):
    """`what` is a flavor's short name, or one of the meters that all flavors share."""

    what = forms.CharField(max_length=64, error_messages={"required": "Choose what the price is for."})
    meter = forms.ChoiceField(label="Counted", choices=Meter, required=False)
    price = forms.CharField(max_length=40, error_messages={"required": "Write a price, for example 2.40."})
    valid_from = moment_field(
        label="From", required=False, error_messages={"invalid": "Write it as year-month-day and hour."}
    )

    def start(self) -> datetime | None:
        found: datetime | None = self.cleaned_data.get("valid_from")
        return found
