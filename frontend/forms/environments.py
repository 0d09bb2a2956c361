"""Ordering and cloning an environment; an operator's kinds."""

from typing import Any

from django import forms

from frontend.forms import Form, RequiredText, choices_set, sentence_of
from frontend.forms.clusters import VersionForm, field_of, posted_of
from frontend.forms.inside import InsideForm, whole
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Document
from gpuaas.core.schema_form import document_of, fields_of
from gpuaas.environments.definition import IDLE_MOST, Definition
from gpuaas.environments.home import FILE_MOST
from gpuaas.environments.models import Environment
from gpuaas.environments.selectors import hours_words
from gpuaas.environments.states import Access
from gpuaas.workspaces.room import LABELS, MOST

START = "parameters."


KEEP = (("4", "for 4 hours"), ("24", "for a day"), ("72", "for 3 days"), ("168", "for a week"))


def idle_field(definition: Definition) -> forms.IntegerField:
    """Empty: as the kind says."""
    most, whose = definition.idle_hours, "Empty: after the most that this kind allows, {most}."
    return whole(
        "Stop after hours without use",
        1,
        most or IDLE_MOST,
        required=False,
        help_text=whose.format(most=hours_words(most)) if most else "Empty: it is never stopped for that.",
    )


class IdleForm(Form):
    def __init__(self, *args: Any, definition: Definition, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "auto_id": "idle_%s"})
        self.fields["idle_hours"] = idle_field(definition)


# what each policy means, beside its name
WHO = {
    Access.PRIVATE: "Private: only its creator",
    Access.WORKSPACE: "Workspace: its admins and editors",
    Access.ORGANIZATION: "Organization: they, and all its members",
    Access.PUBLIC: "Public with a key: they, and key holders",
}


def access_field(definition: Definition) -> forms.ChoiceField:
    return forms.ChoiceField(
        label="Who may open it",
        choices=[(each.value, WHO[each]) for each in definition.access],
        help_text="Your provider decides which of these a kind allows.",
        error_messages={"invalid_choice": "Choose one of those that this kind allows."},
    )


class AccessForm(Form):
    def __init__(self, *args: Any, definition: Definition, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "auto_id": "access_%s"})
        self.fields["access"] = access_field(definition)


class LogForm(Form):
    """Whose log, where it has workers."""

    worker = forms.TypedChoiceField(
        label="Log of",
        coerce=int,
        empty_value=None,
        required=False,
        error_messages={"invalid_choice": "Choose one of its pods."},
    )

    def __init__(self, *args: Any, workers: int, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "auto_id": "log_%s"})
        choices = [("0", "the main pod"), *((f"{each}", f"worker {each}") for each in range(1, workers + 1))]
        choices_set(self, "worker", choices)
        self.fields["worker"].required = workers > 0


class KeyForm(Form):
    name = RequiredText("Enter a name.", 100, label="Name", help_text="To help you recognize it.")


class FilesInput(forms.FileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """Some files at once: a list."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> Any:
        return [super(FilesField, self).clean(each, initial) for each in data or [None]]


class UploadForm(Form):
    """Together as large as one may be, since a proxy lets no more through."""

    file = FilesField(
        label="Files",
        allow_empty_file=True,
        help_text=f"At most {FILE_MOST >> 20} MiB together. Copy more, and folders, by scp.",
    )
    overwrite = forms.BooleanField(label="Replace files of these names", required=False)

    def clean_file(self) -> Any:
        files = self.cleaned_data["file"]
        if sum(each.size for each in files) > FILE_MOST:
            together = "They have" if len(files) > 1 else "It has"
            words = "Upload fewer, or copy them by scp." if len(files) > 1 else "Copy it by scp."
            raise forms.ValidationError(f"{together} more than {FILE_MOST >> 20} MiB. {words}")
        return files


class MoveForm(Form):
    to = RequiredText("Enter a path.", 1024, label="New path in the home", strip=False)


class FolderForm(Form):
    name = RequiredText("Enter a name.", 255, label="Name")


class KeepForm(Form):
    hours = forms.TypedChoiceField(
        label="Keep it running",
        choices=KEEP,
        coerce=int,
        initial="24",
        error_messages={"required": "Choose for how long.", "invalid_choice": "Choose for how long."},
    )


def workers_fields(definition: Definition) -> dict[str, forms.Field]:
    """None for a kind without workers; of the sizes of one, those that an order chooses."""
    found = definition.workers
    if found is None:
        return {}
    fixed = [f"{LABELS[name]}: {size:,}" for name, size in found.sizes.items() if name not in found.open]
    about = f"At most {found.most}; none: the main pod works alone. They count beside the sizes above."
    about += f" Each has {', '.join(fixed)}." if fixed else ""
    fields: dict[str, forms.Field] = {
        "workers": whole("Workers", 0, found.most, initial=found.count, help_text=about)
    }
    for name in found.open:
        label = f"{LABELS[name]}, of each worker"
        fields[f"worker_{name}"] = whole(label, found.least(name), MOST[name], initial=found.sizes[name])
    return fields


class OrderForm(InsideForm):
    """The parameters are one plain field each, by the schema of the kind."""

    asks = Environment.asks

    def __init__(self, *args: Any, definition: Definition, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.definition = definition
        for name in self.asks:
            least, size = 0 if name == "gpus" else 1, definition.sizes[name]
            self.fields[name] = whole(LABELS[name], least, MOST[name], initial=size)
        self.fields |= workers_fields(definition)
        self.fields["idle_hours"] = idle_field(definition)
        self.fields["access"] = access_field(definition)
        self.leaves = fields_of(definition.parameters)
        for leaf in self.leaves:
            self.fields[START + leaf.name] = field_of(leaf)
        self.document: Document = {}

    def clean(self) -> dict[str, Any]:
        typed = posted_of(self, self.leaves, START)
        try:
            self.document = document_of(self.definition.parameters, typed)
        except Invalid as error:
            for name, sentences in error.fields.items():
                self.add_error(START + name, list(map(sentence_of, sentences)))
            readable = {name: text for name, text in typed.items() if name not in error.fields}
            self.document = document_of(self.definition.parameters, readable)
        return super().clean()

    def asked(self) -> dict[str, Any]:
        read = {name: each for name, each in super().asked().items() if not name.startswith(START)}
        return {**read, "parameters": self.document}

    def of_workers(self) -> list[forms.BoundField]:
        return [self[name] for name in workers_fields(self.definition)]

    def parameters(self) -> list[forms.BoundField]:
        return [self[START + leaf.name] for leaf in self.leaves]


class CloneForm(Form):
    name = RequiredText("Enter a name.", 300, label="Name of the clone")


class KindForm(VersionForm):
    """A new kind with its first version."""

    about = "JSON: image, port and home, and what else it needs."
    slug = forms.CharField(
        label="Slug",
        max_length=40,
        help_text="1 to 40 lower-case letters, digits and hyphens; permanent.",
    )
    name = forms.CharField(label="Name", max_length=100, help_text="The name that tenants see.")
    description = forms.CharField(
        label="Description", max_length=300, required=False, help_text="What it is for, in one line."
    )
