"""Adding a data credential to a project."""

from django import forms

from frontend.forms import Form, RequiredText


class DataCredentialForm(Form):
    name = RequiredText(
        "Enter a name.",
        300,
        label="Name",
        help_text="By which jobs name it: lower-case letters, digits and hyphens.",
    )
    access_key_id = RequiredText("Enter the access key ID.", 300, label="Access key ID")
    secret = RequiredText(
        "Enter the secret access key.",
        300,
        label="Secret access key",
        help_text="It is stored sealed, and nobody is shown it again.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    endpoint = forms.CharField(
        label="Endpoint",
        max_length=300,
        required=False,
        help_text="The URL of the S3 server, such as https://s3.example.org. Empty: Amazon's.",
    )
    region = forms.CharField(
        label="Region",
        max_length=300,
        required=False,
        help_text="Such as eu-central-1, where the server has any.",
    )
