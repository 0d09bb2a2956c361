"""Converts our rows to the spec for a driver; and the part of a site's driver that runs environments."""

from gpuaas.catalog.spec import plain_storage_class
from gpuaas.environments.definition import Definition, definition_read
from gpuaas.environments.models import Environment
from gpuaas.lifecycle.inside import Part
from gpuaas.providers.base import EnvironmentCapability, Environments, EnvironmentSpec, WorkerSpec
from gpuaas.workspaces.spec import ref_of

FOR_SPEC = ("site", "workspace", "made_of", "pool")  # relations


def spec_of(row: Environment) -> EnvironmentSpec:
    """Needs FOR_SPEC. One query: the home is plain storage."""
    definition = definition_read(row.made_of.document)
    return EnvironmentSpec(
        id=row.pk,
        name=row.external_name,
        workspace=ref_of(row.workspace),
        image=definition.image,
        port=definition.port,
        readiness=definition.readiness,
        home=definition.home,
        storage_class=plain_storage_class(row.site_id),
        user=definition.user,
        **row.sizes,
        resource_name=row.resource_name,
        command=definition.command,
        arguments=definition.arguments,
        variables={**definition.environment_of(row.parameters), **_given(row, definition)},
        notice_seconds=row.workspace.notice_seconds,
        workers=_workers_of(row, definition),
    )


def _host_of(row: Environment) -> str:
    return f"{row.external_name}-main"


def _given(row: Environment, definition: Definition) -> dict[str, str]:
    """What pods of a kind with workers know of one another."""
    if definition.workers is None:
        return {}
    sizes = {f"WORKER_{name.upper()}": str(size) for name, size in row.of_worker.items()}
    return {"MAIN": _host_of(row), "WORKERS": str(row.workers), **sizes}


def _workers_of(row: Environment, definition: Definition) -> WorkerSpec | None:
    found = definition.workers
    if found is None:
        return None
    return WorkerSpec(
        count=row.workers,
        host=_host_of(row),
        image=found.image or definition.image,
        command=found.command,
        arguments=found.arguments,
        **row.of_worker,
    )


ENVIRONMENTS: Part[Environment, Environments, EnvironmentSpec] = Part(
    EnvironmentCapability, "environments", "offers no environments", spec_of, FOR_SPEC
)
