"""One limit, as typed into the matrix."""

import re
from typing import Any

from django import forms

from frontend.forms import Form

UNLIMITED = frozenset({"unlimited", "no limit", "∞"})
WHOLE = re.compile(r"\A[0-9]{1,16}\Z")
HELP = "Enter a whole number of 0 or more, or unlimited."


class LimitForm(Form):
    """`hard` is None for unlimited; `version` is that of the cell when it was opened."""

    kind = forms.ChoiceField(choices=[("project", "project"), ("organization", "organization")])
    owner = forms.SlugField(max_length=40)
    resource = forms.CharField(max_length=80)
    version = forms.IntegerField(min_value=0, required=False)
    unlimited = forms.BooleanField(required=False)
    hard = forms.CharField(max_length=40, required=False, error_messages={"max_length": HELP})

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if "hard" in self.errors:
            return found
        text = str(found.get("hard", "")).strip().lower().replace(",", "")
        if found.get("unlimited") or text in UNLIMITED:
            found["hard"], found["unlimited"] = None, True
        elif text == "none":
            found["hard"] = 0
        elif WHOLE.match(text):
            found["hard"] = int(text)
        else:
            self.add_error("hard", HELP)
        return found
