"""One row of a table of the rights that the portal's credentials need at a site."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuaas.providers.kubeapi.client import Object


@dataclass(frozen=True)
class Right:
    """`resources` and `verbs` separated by spaces; names: only objects of these names. served: needed only if this is served.
    without: what the portal does without it, as the end of a sentence; empty where nothing may be sold without it."""

    group: str
    resources: str
    verbs: str
    names: tuple[str, ...] = ()
    served: str = ""
    without: str = ""

    def rule(self) -> Object:
        rule: Object = {
            "apiGroups": [self.group],
            "resources": self.resources.split(),
            "verbs": self.verbs.split(),
        }
        return {**rule, "resourceNames": list(self.names)} if self.names else rule

    def attributes(self) -> Iterator[Object]:
        """Attributes for access reviews, one for each verb on each resource."""
        for resource in self.resources.split():
            main, _, sub = resource.partition("/")
            for verb in self.verbs.split():
                for name in self.names or ("",):
                    asked = {"group": self.group, "resource": main, "subresource": sub, "verb": verb}
                    yield {**asked, "name": name}
