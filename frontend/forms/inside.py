"""Ordering what runs inside a workspace."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms

from frontend.forms import WHOLE, Form, RequiredText, choices_set, refuse_readable
from gpuaas.workspaces.models import Workspace

# what the service would refuse, by field, of what was read for an order; of the workspace, too, unless it is None
Wrong = Callable[..., Mapping[str, Sequence[str]]]


def whole(label: str, least: int, most: int, **kwargs: Any) -> forms.IntegerField:
    attrs = {"min": least, "max": most, "inputmode": "numeric"}
    return forms.IntegerField(
        label=label, error_messages=WHOLE, widget=forms.NumberInput(attrs=attrs), **kwargs
    )


class InsideForm(Form):
    """rooms: the workspaces to choose from, by their id. wrong: judges an order before it is given."""

    asks: tuple[str, ...]

    workspace = forms.ChoiceField(
        label="Workspace",
        help_text="It uses what this workspace has bought. Only workspaces that are ready are listed.",
        error_messages={
            "required": "Choose a workspace.",
            "invalid_choice": "Choose one of the workspaces that are ready.",
        },
    )
    name = RequiredText(
        "Enter a name.", 300, label="Name", help_text="Lower-case letters, digits and hyphens."
    )
    gpu = forms.ChoiceField(
        label="GPU type", required=False, help_text="Only needed where the workspace has several."
    )

    def __init__(self, *args: Any, rooms: Mapping[str, Workspace], wrong: Wrong, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rooms, self.wrong = rooms, wrong
        bought = [row.flavor.pool.gpu_type for room in rooms.values() for row in room.flavors.all()]
        gpus = sorted({gpu_type.slug: gpu_type.name for gpu_type in bought}.items())
        choices_set(
            self, "workspace", [(pk, f"{room.name} at {room.site.slug}") for pk, room in rooms.items()]
        )
        choices_set(self, "gpu", [("", "the workspace's own"), *gpus])

    def clean(self) -> dict[str, Any]:
        """What the service would refuse is said together with what cannot be read."""
        found = super().clean() or {}
        room = self.rooms.get(found.get("workspace", ""))
        wrong = self.wrong(workspace=room, **self.asked())
        refuse_readable(self, {self.field_of(name): texts for name, texts in wrong.items()})
        return found

    def field_of(self, name: str) -> str:
        """Beside which field the service's refusal at `name` stands."""
        return name

    def asked(self) -> dict[str, Any]:
        """What the service takes, but the workspace; what cannot be read is left out, and a name is then empty."""
        return {"name": "", **{name: each for name, each in self.cleaned_data.items() if name != "workspace"}}

    def sizes(self) -> list[forms.BoundField]:
        return [self[name] for name in self.asks]
