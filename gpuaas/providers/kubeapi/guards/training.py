"""Rules for JobSets, whether a member or Trainer has written them.

A refusal of what their controller makes of them would reach nobody, so they are judged as they come, each of their templates by
the rules for templates. The Jobs and pods are judged once more.
"""

import re

from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards import devices, spot
from gpuaas.providers.kubeapi.guards.kinds import WRITTEN, Rule, resources, validating
from gpuaas.providers.kubeapi.guards.pods import TEMPLATE_RULES, scheduler
from gpuaas.providers.kubeapi.guards.queues import KEY
from gpuaas.providers.kubeapi.guards.site import Site, cel_list
from gpuaas.providers.kubeapi.training import JOBSET_GROUP, TRAINER_GROUP

JOBSETS = "gpuaas-jobsets"
TRAINJOBS = "gpuaas-trainjobs"

_MOST_JOBS, _MOST_RESTARTS, _MOST_NODES = 500, 100, 10_000
# variables of the rules for templates, of one template among several
_OF_ONE = {
    "template": "made",
    "spec": "made.spec",
    "annotations": "made.?metadata.?annotations.orValue({})",
    "daemon": "false",
    "containers": devices.CONTAINERS,
    "asked": devices.ASKED,
    "wanted": devices.WANTED,
}
_VARIABLE = re.compile(r"variables\.(\w+)")
# what Kueue writes into the templates of what it starts
_KUEUES = cel_list(
    [
        f"{KEY}{name}"
        for name in (
            "podset",
            "local-queue-name",
            "cluster-queue-name",
            "workload",
            "managed",
            "priority-class",
        )
    ]
)
_JOBS = "object.spec.?replicatedJobs.orValue([])"


def policies(site: Site) -> list[Object]:
    variables = {
        "jobs": _JOBS,
        "templates": "variables.jobs.map(j, j.template.spec.template)",
        **{name: text for name, text in devices.VARIABLES.items() if name not in _OF_ONE},
        **spot.VARIABLES,
    }
    of_templates = (
        Rule(_each(rule.expression), rule.sentence) for rule in (scheduler(site), *TEMPLATE_RULES)
    )
    return [
        validating(
            JOBSETS,
            [resources(JOBSET_GROUP, "jobsets", WRITTEN)],
            conditions={
                "in-a-workspace": site.in_workspace,
                "by-others": site.outsiders,
                "made-or-changed": f"request.operation == 'CREATE' || {_JOBS} != {_JOBS.replace('object', 'oldObject')}",
            },
            variables=variables,
            rules=(*_SIZES, *_QUEUED, *of_templates),
            sentences=spot.SENTENCES,
        ),
        _trainjobs(site),
    ]


def _trainjobs(site: Site) -> Object:
    """For MPI, Trainer writes a line for each node in its memory before anything of the TrainJob is judged by another rule."""
    return validating(
        TRAINJOBS,
        [resources(TRAINER_GROUP, "trainjobs", WRITTEN)],
        conditions={"in-a-workspace": site.in_workspace, "by-others": site.outsiders},
        rules=(
            Rule(
                f"object.spec.?trainer.?numNodes.orValue(1) <= {_MOST_NODES}",
                f"a TrainJob has at most {_MOST_NODES:,} nodes: lower trainer.numNodes",
            ),
        ),
    )


def _each(expression: str) -> str:
    while (text := _VARIABLE.sub(_of_one, expression)) != expression:
        expression = text
    return f"variables.templates.all(made, {expression})"


def _of_one(found: re.Match[str]) -> str:
    return f"({_OF_ONE[found[1]]})" if found[1] in _OF_ONE else found[0]


_SIZES = (
    Rule(
        # below zero, which JobSet takes as none, they would be room for others
        f"variables.jobs.all(j, j.?replicas.orValue(1) >= 0) && variables.jobs.map(j, j.?replicas.orValue(1)).sum() <= {_MOST_JOBS}",
        f"a JobSet makes at most {_MOST_JOBS} Jobs: use fewer replicas, each with more pods by parallelism",
    ),
    Rule(
        f"object.spec.?failurePolicy.?maxRestarts.orValue(0) <= {_MOST_RESTARTS}",
        f"a JobSet begins anew at most {_MOST_RESTARTS} times, without a pause: lower failurePolicy.maxRestarts, and let its Jobs "
        "try again by backoffLimit",
    ),
    Rule(
        "object.spec.?failurePolicy.?rules.orValue([]).all(r, !r.action.endsWith('IgnoreMaxRestarts'))",
        "a JobSet that begins anew uncounted would do so for ever: use no action of failurePolicy that ends in IgnoreMaxRestarts",
    ),
)
_KNOWN = f"!key.contains('{KEY}') || key in {_KUEUES}"
_ANNOTATED = "[found.?metadata.?labels.orValue({{}}), found.?metadata.?annotations.orValue({{}})].all(keys, keys.all(key, {}))"
_QUEUED = (
    Rule(
        f"(variables.jobs.map(j, dyn(j.template)) + variables.templates.map(t, dyn(t))).all(found, {_ANNOTATED.format(_KNOWN)}) && "
        "(!object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'TrainJob') || "
        f"[dyn(object)].all(found, {_ANNOTATED.format(_KNOWN)}))",
        "labels and annotations of Kueue are set on the TrainJob or the JobSet itself: take them out of templates and of spec.labels",
    ),
    Rule(
        f"!('{KEY}queue-name' in object.metadata.?labels.orValue({{}})) || variables.templates.all(t, "
        "(t.spec.containers + t.spec.?initContainers.orValue([])).all(c, "
        "['cpu', 'memory', 'ephemeral-storage'].all(name, !(name in c.?resources.?limits.orValue({})) || "
        "name in c.?resources.?requests.orValue({}))))",
        "Kueue counts what a container requests, not its limits: state the same names in resources.requests",
    ),
)
