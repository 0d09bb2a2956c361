"""The rules that models declare, as our errors."""

from django.core.exceptions import ValidationError
from django.db import models

from gpuaas.core.errors import Invalid


def row_check(row: models.Model, *, constraints: bool = True) -> None:
    """The model's own rules, uniqueness included, as our Invalid with a sentence for each field. Without `constraints` the
    database is left to hold those."""
    try:
        row.full_clean(validate_constraints=constraints)
    except ValidationError as error:
        fields: dict[str, list[str]] = {
            "" if name == "__all__" else name: texts for name, texts in error.message_dict.items()
        }
        raise Invalid(next(text for texts in fields.values() for text in texts), fields=fields) from error
