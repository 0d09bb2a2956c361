"""What drivers hand over is stored as it is, and some of it was written by programs of tenants."""

from gpuaas.core.texts import storable


class FromSite:
    """Of a frozen dataclass, whose texts become storable."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if type(value) is str:  # no member of an enumeration
                object.__setattr__(self, name, storable(value))
