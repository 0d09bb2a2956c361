"""The variables of a ClusterClass that an order may set, as JSON Schema."""

from collections.abc import Mapping
from typing import Any

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.clusterapi import conditions, names
from gpuaas.providers.clusterapi.settings import ClassSettings
from gpuaas.providers.kubeapi.client import Api, Object

Schema = dict[str, Any]
# keys of a class's schema that do not restrict values
NOTES = {"example", "x-metadata"}


def parameters_schema(api: Api, settings: ClassSettings) -> Schema:
    """As the controllers have read the class, including inherited and external variables."""
    path = f"{names.CORE}/namespaces/{settings.namespace}/clusterclasses/{settings.name}"
    found = api.find(path)
    if found is None:
        raise NotFound(f"the management cluster has no ClusterClass {settings.namespace}/{settings.name}")
    ready = conditions.condition_of(found, "VariablesReady")
    if ready.get("status") != "True":
        raise Permanent(
            f"the variables of the class {settings.name} are not known yet",
            detail={"evidence": [conditions.read("ClusterClass", settings.name, ready).line]},
        )
    return schema_of(found.get("status", {}).get("variables") or [], settings)


def schema_of(variables: list[Object], settings: ClassSettings) -> Schema:
    """Pure. Raises Permanent for a variable with conflicting definitions."""
    taken = {settings.flavor_variable, *settings.variables}
    taken |= {addon.variable for addon in settings.addons.values() if addon.variable}
    called = {variable: parameter for parameter, variable in settings.parameters.items()}
    properties, required = {}, []
    for variable in variables:
        name, definitions = variable["name"], variable["definitions"]
        if name in taken:
            continue
        if variable.get("definitionsConflict"):
            raise Permanent(f"the variable {name} of the class has conflicting definitions")
        schema = _plain(definitions[0]["schema"]["openAPIV3Schema"])
        ours = called.get(name, name)
        properties[ours] = schema
        if (definitions[0].get("required") and "default" not in schema) or schema.get("type") == "object":
            required.append(ours)
    return {"type": "object", "properties": properties, "required": required}


def _plain(schema: Mapping[str, Any]) -> Schema:
    """Without notes; nested objects are required, their properties are not."""
    made: Schema = {key: value for key, value in schema.items() if key not in NOTES}
    if isinstance(made.get("properties"), Mapping):
        made["properties"] = {name: _plain(one) for name, one in made["properties"].items()}
        inner = [name for name, one in made["properties"].items() if one.get("type") == "object"]
        made["required"] = list(dict.fromkeys([*made.get("required", []), *inner]))
    if isinstance(made.get("items"), Mapping):
        made["items"] = _plain(made["items"])
    return made
