"""The rules that models and fields of forms declare, as our errors and in our own words."""

from typing import Any

from django import forms
from django.core import validators
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models

from gpuaas.core.errors import Invalid

# Django's own words, and ours for where a field has none of its own
OURS = (
    (
        validators.MaxLengthValidator.message,
        "Write at most %(limit_value)d characters; these are %(show_value)d.",
    ),
    (validators.MinValueValidator.message, "Enter %(limit_value)s or more."),
    (validators.MaxValueValidator.message, "Enter %(limit_value)s or less."),
    (validators.EmailValidator.message, "Enter an address such as ada@example.org."),
    (validators.URLValidator.message, "Enter an address such as https://example.org."),
    (validators.validate_slug.message, "Use letters, digits, hyphens and underscores alone."),
    (forms.Field.default_error_messages["required"], "Enter a value."),
    (forms.ChoiceField.default_error_messages["invalid_choice"], "Choose one of the list."),
    (forms.MultipleChoiceField.default_error_messages["invalid_choice"], "Choose only what the list has."),
    (forms.DateField.default_error_messages["invalid"], "Enter a date as year-month-day."),
    (forms.DateTimeField.default_error_messages["invalid"], "Enter a date as year-month-day and a time."),
    (forms.JSONField.default_error_messages["invalid"], "This is not valid JSON."),
    (models.Field.default_error_messages["blank"], "Enter a value."),
    (models.Field.default_error_messages["null"], "Enter a value."),
    (models.Field.default_error_messages["invalid_choice"], "Choose one of those that are known."),
)


def say_in_our_words(error: ValidationError) -> None:
    """Replaces Django's words in a list of errors. A name that is taken says by what."""
    for each in error.error_list:
        if each.code in {"unique", "unique_together"}:
            each.message = _taken(**(each.params or {}))
        else:
            each.message = next((ours for theirs, ours in OURS if each.message is theirs), each.message)


def _taken(*, model_class: type[models.Model], unique_check: tuple[str, ...], **_: Any) -> str:
    """`A project with this slug already exists.`"""
    fields = (model_class._meta.get_field(name) for name in unique_check)
    labels = " and ".join(_noun(str(getattr(field, "verbose_name", field.name))) for field in fields)
    noun = _noun(str(model_class._meta.verbose_name))
    return f"{'An' if noun[0] in 'aeio' else 'A'} {noun} with this {labels} already exists."


def _noun(words: str) -> str:
    return " ".join("GPU" if word.lower() == "gpu" else word for word in words.split())


def row_check(row: models.Model, *, constraints: bool = True) -> None:
    """The model's own rules, uniqueness included, as our Invalid with a sentence for each field. Without `constraints` the
    database is left to hold those."""
    try:
        row.full_clean(validate_constraints=constraints)
    except ValidationError as error:
        for each in error.error_dict.values():
            say_in_our_words(ValidationError(each))
        fields: dict[str, list[str]] = {
            "" if name == NON_FIELD_ERRORS else name: texts for name, texts in error.message_dict.items()
        }
        raise Invalid(next(text for texts in fields.values() for text in texts), fields=fields) from error
