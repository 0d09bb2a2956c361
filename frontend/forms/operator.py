"""Flavors, organizations, people and prices, as operators type them."""

from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings

from frontend.forms import WHOLE, WRITTEN, Form, RequiredText
from frontend.forms.lease import moment_field
from gpuaas.catalog.services.lending import NOTICE_LEAST, NOTICE_MOST, NOTICE_USUAL
from gpuaas.catalog.states import DriftPolicy, HugepagesSize, PriceClass
from gpuaas.metering.models import Meter
from tenants.roles import OrganizationRole, PlatformRole

# of what a flavor, or a resource that is not sold, is counted as
GPU_METERS = (Meter.GPU_HELD, Meter.GPU_ALLOCATED, Meter.GPU_STOPPED, Meter.GPU_SHELVED, Meter.GPU_IDLE)


class FactorForm(Form):
    oversubscription_percent = forms.IntegerField(
        label="Sold up to", error_messages=WHOLE, help_text="1 to 1000; 100 sells every healthy GPU once"
    )


class DriftPolicyForm(Form):
    drift_policy = forms.ChoiceField(
        label="When someone else changes objects of the portal",
        choices=DriftPolicy,
        widget=forms.RadioSelect,
        error_messages={"required": "Choose one of the two."},
    )


class FlavorForm(Form):
    slug = RequiredText(
        "Enter a short name.", 64, label="Short name", help_text="what people type, for example h100.1"
    )
    name = RequiredText("Enter a name.", 100)
    gpus = forms.IntegerField(label="GPUs", initial=1, min_value=1, max_value=1024, error_messages=WHOLE)
    vcpus = forms.IntegerField(
        label="vCPU",
        min_value=1,
        max_value=100_000,
        error_messages=WHOLE,
        help_text="for all its GPUs together",
    )
    memory_gib = forms.IntegerField(label="Memory", min_value=1, max_value=1_000_000, error_messages=WHOLE)
    disk_gib = forms.IntegerField(
        label="Disk",
        initial=0,
        min_value=0,
        max_value=10_000_000,
        error_messages=WHOLE,
        help_text="on the node; clouds only",
    )
    price_class = forms.ChoiceField(
        label="Price class", choices=PriceClass, help_text="spot lends what was sold and is idle"
    )
    notice_seconds = forms.IntegerField(
        label="Notice of spot",
        required=False,
        min_value=NOTICE_LEAST,
        max_value=NOTICE_MOST,
        error_messages=WHOLE,
        help_text=f"seconds that what runs may go on once a buyer needs its GPUs; {NOTICE_USUAL} if empty",
    )
    whole_node = forms.BooleanField(label="Sold by the whole node", required=False)
    exclusive_cpus = forms.BooleanField(label="Dedicated whole cores", required=False)
    hugepages_size = forms.ChoiceField(
        label="Hugepages",
        choices=[("", "none"), *HugepagesSize.choices],
        required=False,
        help_text="page size",
    )
    hugepages_gib = forms.IntegerField(
        label="Hugepages memory",
        min_value=0,
        max_value=1_000_000,
        required=False,
        error_messages=WHOLE,
        help_text="part of its memory",
    )
    profile = forms.CharField(
        label="Node profile", max_length=63, required=False, help_text="the nodes' label gpuaas.io/profile"
    )
    sysctls = forms.CharField(
        label="Sysctls that pods may set",
        max_length=4000,
        required=False,
        widget=forms.Textarea({"rows": 2}),
        help_text="names, one per line: net.*, kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.*",
    )

    def clean_hugepages_gib(self) -> int:
        return self.cleaned_data["hugepages_gib"] or 0

    def clean_sysctls(self) -> list[str]:
        """One per line, or separated by commas or spaces."""
        return str(self.cleaned_data["sysctls"]).replace(",", " ").split()


class SiteNameForm(Form):
    name = RequiredText("Enter a name.", 100)


class SellForm(Form):
    """The price of a new GPU type, which is offered once it has one."""

    price = RequiredText("Enter a price, for example 2.40.", 40)


class OrganizationForm(Form):
    slug = RequiredText(
        "Enter a short name.", 40, label="Short name", help_text="lower-case letters, digits, hyphens"
    )
    name = RequiredText("Enter a name.", 100)
    owner = forms.CharField(
        label="Owner",
        max_length=254,
        required=False,
        help_text="user name or e-mail address; can be set later",
    )


class ProjectForm(Form):
    slug = RequiredText(
        "Enter a short name.",
        40,
        label="Short name",
        help_text="short name, lower-case letters, digits, hyphens",
    )
    name = RequiredText("Enter a name.", 100)


class OwnerForm(Form):
    user = RequiredText("Enter the user name.", 254, label="Person", help_text="user name or e-mail address")
    role = forms.ChoiceField(choices=OrganizationRole)


RENAMED = {
    "username": "roles, workspaces and access at the sites follow the account, not its name",
    "email": "for the sign-in and for mail; the old one opens nothing any more",
}


class PersonChangeForm(Form):
    """An account that has no address may stay without one."""

    username = RequiredText("Enter a user name.", 150, label="User name")
    email = forms.EmailField(
        label="E-mail",
        required=False,
        error_messages={"required": "Enter an address.", "invalid": "Enter a valid address."},
    )
    first_name = forms.CharField(label="First name", max_length=150, required=False)
    last_name = forms.CharField(label="Last name", max_length=150, required=False)


class PersonRenameForm(PersonChangeForm):
    """Of an account that exists."""

    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, text in RENAMED.items():
            self.fields[name].help_text = text


class PersonForm(PersonChangeForm):
    platform_role = forms.ChoiceField(
        label="Role on the platform", choices=PlatformRole, required=False, help_text="most people need none"
    )
    without_password = forms.BooleanField(
        label="Without a password",
        required=False,
        help_text="they sign in by single sign-on, or set one by Forgot password",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].required = True

    def clean_without_password(self) -> bool:
        wanted = bool(self.cleaned_data["without_password"])
        if wanted and not (settings.MAILS_ENABLED or settings.SOCIALACCOUNT_PROVIDERS):
            raise forms.ValidationError("Nobody could sign in: there is neither single sign-on nor mail.")
        return wanted


class RateForm(Form):
    """`what`: see `frontend.forms.rates.ware_named`."""

    what = RequiredText("Choose what the price is for.", 200, label="Item")
    meter = forms.ChoiceField(
        label="Counted",
        choices=[(one.value, one.label) for one in GPU_METERS],
        required=False,
        help_text="for GPUs; resources shared by all flavors are counted in one way",
    )
    price = RequiredText(
        "Enter a price, for example 2.40.",
        40,
        help_text="per GPU, core or GiB and hour, or per million tokens; up to 6 decimals",
    )
    valid_from = moment_field(
        label="From",
        required=False,
        error_messages=WRITTEN,
        help_text="empty means now; earlier usage keeps its price, and tokens the price of their day's beginning",
    )
    currency = forms.CharField(max_length=3, required=False, widget=forms.HiddenInput)

    def start(self) -> datetime | None:
        found: datetime | None = self.cleaned_data.get("valid_from")
        return found
