"""Submitting a job that is written as a YAML document."""

from typing import Any

from django import forms

from frontend.forms import Form, sentence_of
from gpuaas.core.errors import GpuaasError, Invalid
from gpuaas.core.plain_yaml import LONGEST, Plain, plain_read


def _document(needed: str) -> forms.CharField:
    return forms.CharField(
        label="Document",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 18, "spellcheck": "false"}),
        help_text=f"YAML with the fields of a job: {needed}, and what else it needs.",
    )


class JobFileForm(Form):
    """Pasted or uploaded; a file wins."""

    document = _document("workspace (its id), name, image")
    file = forms.FileField(label="Or upload a file", required=False, help_text="In place of the text above.")

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        file = found.get("file")
        self.typed_in, self.read = "file" if file else "document", Plain()
        given = file.read(LONGEST + 1) if file else found.get("document", "").replace("\r\n", "\n")
        if not given.strip():
            self.add_error(self.typed_in, "Paste a document, or choose a file.")
            return found
        try:
            self.read = plain_read(given)
        except Invalid as error:
            self.refuse(error)
        return found

    def refuse(self, error: GpuaasError) -> None:
        """Each refusal beside the document, with its line and its field, in the order of lines."""
        lines = self.read.lines
        found = (error.fields or {"": [error.message]}).items()
        for path, texts in sorted(found, key=lambda each: lines.get(each[0], 0)):
            line = lines.get(path)
            for text in texts:
                where, words = f"line {line}" if line else "", text
                if not where and text.startswith("line ") and path:
                    where, _, words = text.partition(": ")
                where = ", ".join(filter(None, (where, path)))
                self.add_error(self.typed_in, sentence_of(f"{where}: {words}" if where else words))


class ClusterJobFileForm(JobFileForm):
    document = _document("name, script")
