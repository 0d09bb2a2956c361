"""What an operator says of a site beside its credentials: by fields for a cloud, as a JSON object for the others."""

from collections.abc import Mapping
from typing import Any

from django import forms

from frontend.forms.operator import WHOLE

CLOUD = "openstack"
OPTIONS = (
    "domain",
    "external_network",
    "aliases",
    "surplus_machines",
    "history_days",
    "token_cache_seconds",
    "sites_projects",
)
SURPLUS = (("", "Shelve the newest, with its disk"), ("delete", "Delete the newest"))


class CloudOptionsForm(forms.Form):
    domain = forms.CharField(label="Domain", max_length=64, required=False)
    external_network = forms.CharField(label="Outside network", max_length=255, required=False)
    aliases = forms.CharField(
        label="Aliases", max_length=4000, required=False, widget=forms.Textarea({"rows": 2})
    )

    surplus_machines = forms.ChoiceField(
        label="Machines beyond what was bought", choices=SURPLUS, required=False
    )
    history_days = forms.IntegerField(
        label="Nova keeps what was deleted",
        min_value=1,
        max_value=3650,
        required=False,
        error_messages=WHOLE,
    )
    token_cache_seconds = forms.IntegerField(
        label="Services believe a token",
        min_value=0,
        max_value=3600,
        required=False,
        error_messages=WHOLE,
    )
    sites_projects = forms.CharField(label="The site's own projects", max_length=2000, required=False)

    def clean_aliases(self) -> dict[str, str]:
        """`CLASS = alias`, one a line."""
        found = {}
        for line in filter(None, map(str.strip, str(self.cleaned_data["aliases"]).splitlines())):
            name, sign, alias = (part.strip() for part in line.partition("="))
            if not (name and sign and alias):
                raise forms.ValidationError("One a line, for example CUSTOM_PCI_10DE_2330 = h100.")
            found[name] = alias
        return found

    def clean_sites_projects(self) -> list[str]:
        return str(self.cleaned_data["sites_projects"]).replace(",", " ").split()

    def options(self, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What was left empty is the driver's to decide; what this form does not know stays as it was."""
        kept = {name: value for name, value in (before or {}).items() if name not in OPTIONS}
        given = {name: self.cleaned_data[name] for name in OPTIONS if self.cleaned_data.get(name)}
        return {**kept, **given}

    @staticmethod
    def shown(options: Mapping[str, Any]) -> dict[str, Any]:
        """What is set, as it is typed."""
        aliases = "\n".join(f"{name} = {alias}" for name, alias in (options.get("aliases") or {}).items())
        projects = ", ".join(options.get("sites_projects") or ())
        return {**options, "aliases": aliases, "sites_projects": projects}

    @staticmethod
    def field_of(sentence: str) -> str:
        """The driver refuses its options with the name of one at the beginning."""
        return next((name for name in OPTIONS if sentence.startswith(f"{name} ")), "aliases")


class OptionsForm(forms.Form):
    text = forms.JSONField(
        label="Options",
        required=False,
        widget=forms.Textarea({"rows": 6, "spellcheck": "false"}),
        error_messages={"invalid": "This is no JSON."},
    )

    def clean_text(self) -> dict[str, Any]:
        found = self.cleaned_data["text"] or {}
        if not isinstance(found, dict):
            raise forms.ValidationError('A JSON object, for example {"routes": true}.')
        return found

    def options(self, _before: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.cleaned_data["text"])

    @staticmethod
    def shown(options: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": dict(options)}

    @staticmethod
    def field_of(_sentence: str) -> str:
        return "text"
