"""Forms parse what browsers send; whether it may be is the services' question, whose refusals land on their fields."""

from collections.abc import Mapping

from django import forms

from gpuaas.core.errors import GpuaasError, Invalid


def refuse(
    form: forms.Form, error: GpuaasError, *, fields: Mapping[str, str] | None = None, default: str = ""
) -> None:
    """Put a service's refusal beside the field it is about. `fields` maps the service's names to the form's."""
    names = dict(fields or {})
    if isinstance(error, Invalid) and error.fields:
        for name, sentences in error.fields.items():
            target = names.get(name, name)
            for sentence in sentences:
                form.add_error(target if target in form.fields else None, sentence_of(sentence))
        return
    named = str(error.detail.get("field", ""))
    target = names.get(named, named) or default
    form.add_error(target if target in form.fields else None, sentence_of(error.message))


def sentence_of(text: str) -> str:
    """Services say it in the middle of a line; beside a field it stands alone."""
    said = text[:1].upper() + text[1:]
    return said if said.endswith((".", "!", "?")) else f"{said}."
