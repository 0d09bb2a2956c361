"""Which of Placement's resource classes are GPUs: by their names, and by what the site's operator says of them.

Operators name classes as they like. One that nobody has explained may be a GPU, so it is limited, metered and taken back like
one, but not sold.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuaas.core.errors import Invalid

OPTION = "gpu_classes"
NONE = "none"  # what the option calls a class that is no GPU
VGPU, PGPU = "VGPU", "PGPU"
PCI_CLASS = "CUSTOM_PCI_"
OWN_CLASS = "CUSTOM_"
BARE_METAL = "CUSTOM_BAREMETAL"  # whole hosts of Ironic
MODEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9 ._-]{0,98})(?:/([1-9][0-9]{0,2}))?")


@dataclass(frozen=True)
class Classes:
    """given: the site's option, class to model: `H100`, `L40S/4` for one of four shares of a card, or none. aliases: alias of
    Nova's configuration to the class by which the site counts its devices."""

    given: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def is_gpu(self, name: str) -> bool:
        """Whether it may be one."""
        if name in self.given:
            return self.given[name] != NONE
        return name in {VGPU, PGPU} or (name.startswith(OWN_CLASS) and not name.startswith(BARE_METAL))

    def is_known(self, name: str) -> bool:
        """Whether it is known of which type it is, so that it can be sold."""
        return self.is_gpu(name) and (name in self.given or name == VGPU or name.startswith(PCI_CLASS))

    def is_closed(self, name: str) -> bool:
        """Whether nobody may have any who has not bought them."""
        return self.is_gpu(name) or (name.startswith(BARE_METAL) and name not in self.given)

    def is_left(self, name: str) -> bool:
        """Whether the operator said that it is no GPU, so that it stays at the site's default."""
        return self.given.get(name) == NONE

    def model_of(self, name: str) -> tuple[str, int]:
        """The model that the option names, "" if it names none, and the number of shares of a card."""
        given = self.given.get(name, "")
        found = MODEL.fullmatch(given) if given != NONE else None
        return (found[1].strip(), int(found[2] or 1)) if found else ("", 1)

    def of(self, asked: str) -> str:
        """The class that a flavor asks for, by its name or by an alias; an unknown alias stays itself."""
        return self.aliases.get(asked, asked)


BY_NAME = Classes()  # where the operator has said nothing


def option_check(options: Mapping[str, Any]) -> Classes:
    """Raises Invalid for the option."""
    given: Mapping[str, str] = options.get(OPTION) or {}
    for name, model in given.items():
        if not re.fullmatch(r"CUSTOM_[A-Z0-9_]+|PGPU", name):
            raise Invalid.field(
                f"options.{OPTION}",
                f"{name!r} is not a class that needs a model: they begin with {OWN_CLASS}, or are {PGPU}",
            )
        if not MODEL.fullmatch(model):
            words = (
                f"{model!r} is not a model: write it as H100, as L40S/4 for a quarter of a card, or {NONE}"
            )
            raise Invalid.field(f"options.{OPTION}", words)
    return Classes(given)
