"""How a driver declares itself: its label and nouns, what it provisions, and the fields of its sites."""

import re
from dataclasses import dataclass, field

from gpuaas.core.declaration import NOTHING, declaration_compile
from gpuaas.core.schema import Schema, Unfit

NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
# what every site has, whatever its driver
RESERVED = {"slug", "name", "driver", "endpoint", "oversubscription_percent"}


@dataclass(frozen=True)
class Nouns:
    """`space`: what a workspace is at the site; `consumer`: what uses devices in it; `node`: where that runs, "" if
    tenants do not see it."""

    space: str = "namespace"
    consumer: str = "pod"
    node: str = "node"


@dataclass(frozen=True)
class DriverKind:
    """Declared in a module that imports no client library: `site` and `clusters` name the classes, which are imported
    when a site is first used.

    name: as it is stored and typed; lower-case letters, digits and hyphens.
    label: as people read it. summary: what a site of it is, in one sentence.
    site: `module:Class` of its Driver; "" where it only builds clusters, at sites of other drivers.
    workspaces: False where nothing at its sites may be asked for as a workspace.
    clusters: `module:Class` of its ClusterDriver; "" where it builds none.
    hosts: True where the portal keeps the inventory of its sites' hosts.
    simulated: True where nothing at its sites is real.
    endpoint: description of the site's address field; "" = the form has none.
    experimental: why not to rely on it yet, in a sentence; "" = it is not experimental.
    credentials, options: JSON Schemas, as `gpuaas.core.declaration` takes them. options None: not declared, any JSON
    object.
    """

    name: str
    label: str
    summary: str
    site: str = ""
    clusters: str = ""
    workspaces: bool = True
    hosts: bool = False
    simulated: bool = False
    endpoint: str = ""
    experimental: str = ""
    nouns: Nouns = Nouns()
    credentials: Schema = field(default_factory=lambda: dict(NOTHING))
    options: Schema | None = None

    def __post_init__(self) -> None:
        """Raises Unfit for schemas that no form could show."""
        if not NAME.fullmatch(self.name):
            raise Unfit("name", "1 to 32 lower-case letters, digits and hyphens")
        object.__setattr__(self, "credentials", declaration_compile(self.credentials))
        if self.options is not None:
            object.__setattr__(self, "options", declaration_compile(self.options))
        asked = [*self.credentials["properties"], *(self.options or NOTHING)["properties"]]
        if twice := sorted({name for name in asked if asked.count(name) > 1 or name in RESERVED}):
            raise Unfit(
                twice[0], "the field is declared twice, or has the name of a field that every site has"
            )

    @property
    def attaches(self) -> bool:
        """Whether sites are attached with it."""
        return bool(self.site)

    @property
    def provisions(self) -> tuple[str, ...]:
        """Those of `workspaces` and `clusters` that it provisions."""
        made = {"workspaces": bool(self.site) and self.workspaces, "clusters": bool(self.clusters)}
        return tuple(what for what, is_made in made.items() if is_made)

    @property
    def choice(self) -> str:
        """The label in a list of choices."""
        return f"{self.label} (experimental)" if self.experimental else self.label
