"""Sites, as operators attach them: a Kubernetes cluster by its kubeconfig, an OpenStack cloud by its clouds.yaml."""

from typing import Any, ClassVar

from django import forms

from frontend.forms.operator import WHOLE
from frontend.forms.site_options import CLOUD, CloudOptionsForm
from gpuaas.providers.registry import driver_names

FILE_MAX = 256 * 1024


class Sealed(forms.Textarea):
    """Takes a secret and never gives it back, not even in the same form refused."""

    def format_value(self, value: object) -> str | None:
        del value
        return None


def sealed_field(label: str = "") -> forms.CharField:
    return forms.CharField(
        label=label or None,
        required=False,
        max_length=FILE_MAX,
        strip=True,
        widget=Sealed(attrs={"rows": 6, "spellcheck": "false", "autocomplete": "off"}),
    )


class CredentialsForm(forms.Form):
    """A document that opens a site, pasted or as a file; it is sealed when it is saved and never shown again."""

    document: ClassVar[str]  # the name of the field; the file's is this and `_file`
    words: ClassVar[str]

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        name, file = self.document, f"{self.document}_file"
        upload = found.get(file)
        if upload:
            found[file] = self._read(file, upload)
            if found.get(name):
                self.add_error(file, "Paste it or choose a file, not both.")
        return found

    def _read(self, field: str, upload: Any) -> str:
        if upload.size > FILE_MAX:
            self.add_error(field, f"A {self.words} is smaller than 256 KiB; this is another file.")
            return ""
        try:
            return str(upload.read().decode("utf-8")).strip()
        except UnicodeDecodeError:
            self.add_error(field, "This file is not text.")
            return ""

    def text(self) -> str:
        found = self.cleaned_data
        return str(found.get(self.document) or found.get(f"{self.document}_file") or "")

    def credentials(self) -> dict[str, str]:
        return {self.document: self.text()} if self.text() else {}

    def lacks(self) -> None:
        self.add_error(self.document, f"Paste the {self.words} or choose its file.")


class KubeconfigForm(CredentialsForm):
    document, words = "kubeconfig", "kubeconfig"

    kubeconfig = sealed_field()
    kubeconfig_file = forms.FileField(required=False, label="Or as a file")


class CloudForm(CredentialsForm):
    """A clouds.yaml, or an application credential typed in."""

    document, words = "clouds_yaml", "clouds.yaml"

    clouds_yaml = sealed_field("clouds.yaml")
    clouds_yaml_file = forms.FileField(required=False, label="Or as a file")
    cloud = forms.CharField(label="Which of its clouds", max_length=100, required=False)
    auth_url = forms.CharField(label="Address of Keystone", max_length=300, required=False)
    application_credential_id = forms.CharField(label="Id", max_length=64, required=False)
    application_credential_secret = forms.CharField(
        label="Secret",
        max_length=255,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    region_name = forms.CharField(label="Region", max_length=255, required=False)

    TYPED = ("auth_url", "application_credential_id", "application_credential_secret")

    def clean(self) -> dict[str, Any]:
        found = super().clean()
        typed = [name for name in self.TYPED if found.get(name)]
        if typed and self.text():
            self.add_error(typed[0], "Give a clouds.yaml or an application credential, not both.")
        for name in self.TYPED:
            if typed and not found.get(name) and not self.text():
                self.add_error(name, "An application credential needs this too.")
        return found

    def credentials(self) -> dict[str, str]:
        names = ("region_name", *(("cloud",) if self.text() else self.TYPED))
        given = {name: self.cleaned_data[name] for name in names if self.cleaned_data.get(name)}
        document = super().credentials()
        return {**document, **given} if document or len(given) > 1 else {}


class RotateForm(KubeconfigForm):
    def clean(self) -> dict[str, Any]:
        found = super().clean()
        if not self.errors and not self.credentials():
            self.add_error("kubeconfig", "Paste the new kubeconfig or choose its file.")
        return found


class CloudRotateForm(CloudForm):
    def clean(self) -> dict[str, Any]:
        found = super().clean()
        if not self.errors and not self.credentials():
            self.add_error("clouds_yaml", "Paste the new clouds.yaml or choose its file.")
        return found


class SiteForm(KubeconfigForm):
    slug = forms.CharField(
        label="Short name",
        max_length=40,
        error_messages={"required": "Give it a short name, for example ber-2."},
    )
    name = forms.CharField(max_length=100, error_messages={"required": "Give it a name."})
    driver = forms.ChoiceField(
        label="Driver", choices=lambda: [(name, name) for name in driver_names() if name != CLOUD]
    )
    endpoint = forms.CharField(label="API address", max_length=300, required=False)
    oversubscription_percent = forms.IntegerField(label="Oversubscription", initial=100, error_messages=WHOLE)

    def clean(self) -> dict[str, Any]:
        found = super().clean()
        if found.get("driver") == "kubernetes" and not self.credentials() and not self.errors:
            self.add_error("kubeconfig", "A Kubernetes site needs a kubeconfig.")
        return found

    def options(self) -> dict[str, Any]:
        return {}


class CloudSiteForm(CloudForm, CloudOptionsForm):
    slug = SiteForm.base_fields["slug"]
    name = SiteForm.base_fields["name"]
    driver = forms.ChoiceField(choices=[(CLOUD, CLOUD)], widget=forms.HiddenInput)
    oversubscription_percent = SiteForm.base_fields["oversubscription_percent"]

    def clean(self) -> dict[str, Any]:
        found = super().clean()
        if not self.errors and not self.credentials():
            self.add_error(
                "clouds_yaml", "An OpenStack site needs a clouds.yaml or an application credential."
            )
        return found
