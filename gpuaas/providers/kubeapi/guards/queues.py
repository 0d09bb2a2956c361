"""Rules for what members queue by Kueue, whatever its version: ways around its quota that were published, and the likes of them.

They act at sites without Kueue as well, so that it may come at any time. What runs in spite of it is held by the quota.
"""

from gpuaas.providers.kubeapi import training
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards.kinds import WRITTEN, Rule, resources, validating
from gpuaas.providers.kubeapi.guards.site import Site, cel_list

QUEUED = "gpuaas-queued"
QUEUES = "gpuaas-queues"
WORKLOADS = "gpuaas-workloads"

KEY = "kueue.x-k8s.io/"
# what a member may say to Kueue, and what its own webhooks have added before the rules see it
_LABELS = cel_list(
    [f"{KEY}{name}" for name in ("queue-name", "priority-class", "max-exec-time-seconds", "managed")]
)
_ANNOTATIONS = cel_list(
    [
        f"{KEY}{name}"
        for name in (
            *("role-hash", "pod-suspending-parent"),
            *("job-min-parallelism", "job-completions-equal-parallelism"),
        )
    ]
)
# labels that a member may change later
_FREE = cel_list([f"{KEY}priority-class", f"{KEY}max-exec-time-seconds"])
_NOBODY = "{'metadata': {}}"
_TEMPLATE = (
    "request.kind.kind == 'CronJob' ? {object}.spec.jobTemplate : request.kind.kind == 'PodTemplate' ? {object}.template : "
    f"request.kind.kind in {cel_list(['Pod', *training.KINDS])} ? {{object}} : {{object}}.spec.template"
)
_OF_CRONJOB = "request.kind.kind == 'CronJob' ? dyn({object}.spec.jobTemplate.spec.template) : dyn({object})"


def _known(keys: str, allowed: str, before: str) -> str:
    return (
        f"{keys}.all(key, !key.contains('{KEY}') || key in {allowed} || "
        f"(key in {before} && {before}[key] == {keys}[key]))"
    )


def policies(site: Site) -> list[Object]:
    return [_queued(site), _queues(site), _workloads(site)]


def _queued(site: Site) -> Object:
    """Objects by which members run pods. What controllers make from them has passed here."""
    places = ("object", "variables.template", "variables.inner")
    old = ("variables.old", "variables.oldTemplate", "variables.oldInner")
    known = [
        _known(f"{new}.?metadata.?{what}.orValue({{}})", allowed, f"{before}.?metadata.?{what}.orValue({{}})")
        for new, before in zip(places, old, strict=True)
        for what, allowed in (("labels", _LABELS), ("annotations", _ANNOTATIONS))
    ]
    return validating(
        QUEUED,
        [
            resources("", "pods pods/resize podtemplates replicationcontrollers", WRITTEN),
            resources("apps", "deployments replicasets statefulsets", WRITTEN),
            resources("batch", "jobs cronjobs", WRITTEN),
            # what is in the templates of a JobSet is judged in training.py
            resources(training.JOBSET_GROUP, "jobsets", WRITTEN),
            resources(training.TRAINER_GROUP, "trainjobs", WRITTEN),
        ],
        conditions={"in-a-workspace": site.in_workspace, "by-members": site.members},
        variables={
            "old": f"request.operation == 'UPDATE' ? dyn(oldObject) : dyn({_NOBODY})",
            "template": f"dyn({_TEMPLATE.format(object='object')})",
            "oldTemplate": f"request.operation == 'UPDATE' ? dyn({_TEMPLATE.format(object='oldObject')}) : dyn({_NOBODY})",
            "inner": _OF_CRONJOB.format(object="object"),
            "oldInner": f"request.operation == 'UPDATE' ? ({_OF_CRONJOB.format(object='oldObject')}) : dyn({_NOBODY})",
            "oldLabels": "variables.old.?metadata.?labels.orValue({})",
        },
        rules=(
            # a job without labels gets those of its template, so what is taken off is looked for first
            *_KEPT,
            *(Rule(expression, _SAYS) for expression in known),
        ),
    )


_SAYS = (
    "of Kueue's labels and annotations only queue-name, priority-class, max-exec-time-seconds, job-min-parallelism and "
    "job-completions-equal-parallelism may be set, by which a Job, a Deployment or a pod is queued: instead of a group of pods "
    "or a StatefulSet, queue a Job with parallelism"
)
_KEPT = (
    Rule(
        f"!('{KEY}queue-name' in object.metadata.?labels.orValue({{}}) || "
        f"'{KEY}queue-name' in variables.template.?metadata.?labels.orValue({{}})) || "
        "[variables.inner.spec.?template.?spec.orValue(variables.inner.spec)].all(pod, (pod.?containers.orValue([]) + "
        "pod.?initContainers.orValue([])).all(c, ['cpu', 'memory', 'ephemeral-storage'].all(name, "
        "!(name in c.?resources.?limits.orValue({})) || name in c.?resources.?requests.orValue({}))))",
        "Kueue counts what a container requests, not its limits: state the same names in resources.requests",
    ),
    Rule(
        f"variables.oldLabels.all(key, !key.startsWith('{KEY}') || key in {_FREE} || "
        "object.metadata.?labels[?key].orValue('') == variables.oldLabels[key])",
        "what is in a queue stays in it, under the labels that it has: delete it, and make it anew",
    ),
    Rule(
        "request.kind.kind != 'Pod' || request.operation != 'UPDATE' || variables.old.spec.?schedulingGates.orValue([])"
        f".all(g, !g.name.startsWith('{KEY}') || object.spec.?schedulingGates.orValue([]).exists(n, n.name == g.name))",
        "Kueue lets the pod start when its queue has room: leave its schedulingGates as they are",
    ),
    Rule(
        f"request.?subResource.orValue('') != 'resize' || variables.oldLabels.all(key, !key.startsWith('{KEY}'))",
        "a pod that Kueue has admitted keeps its size: delete it, and make it anew",
    ),
    Rule(
        f"request.kind.kind != 'Job' || !('{KEY}queue-name' in variables.oldLabels) || variables.old.spec.?suspend.orValue(false) "
        "|| object.spec.?parallelism.orValue(1) <= variables.old.spec.?parallelism.orValue(1)",
        "a job that Kueue has admitted does not grow: queue another one",
    ),
    Rule(
        f"!(request.kind.kind in {cel_list(['Job', *training.KINDS])}) || !('{KEY}queue-name' in variables.oldLabels) || "
        "!variables.old.spec.?suspend.orValue(false) || object.spec.?suspend.orValue(false)",
        "Kueue starts the job when its queue has room: leave suspend as it is",
    ),
    Rule(
        f"!(request.kind.kind in {cel_list(['Job', 'JobSet'])}) || object.metadata.?ownerReferences.orValue([]).all(o, "
        f"!o.?controller.orValue(false) || !(o.kind in {cel_list(training.KINDS)}) || "
        "variables.old.?metadata.?ownerReferences.orValue([]).exists(n, n == o))",
        "a TrainJob or a JobSet makes its Jobs itself: take ownerReferences out",
    ),
    Rule(
        f"!variables.old.?metadata.?ownerReferences.orValue([]).exists(o, o.kind in {cel_list(training.KINDS)}) || "
        "!(request.kind.kind in ['Job', 'JobSet']) || ["
        "[object.spec.?suspend.orValue(false), variables.old.spec.?suspend.orValue(false)], "
        "[object.spec.?parallelism.orValue(1), variables.old.spec.?parallelism.orValue(1)]].all(p, p[0] == p[1])",
        "a TrainJob or a JobSet starts, stops and sizes what it has made: change that one",
    ),
)


def _queues(site: Site) -> Object:
    return validating(
        QUEUES,
        [resources("kueue.x-k8s.io", "localqueues localqueues/status workloads workloads/status")],
        conditions={"in-a-workspace": site.in_workspace, "by-members": site.members},
        rules=(
            Rule(
                "false",
                "queues belong to the portal, and workloads to Kueue: label a job with its queue-name",
            ),
        ),
    )


# sums of at most 10,000 pods of 50 containers with such amounts fit into the 63 bits of Kueue, cores as thousandths
_MOST_PODS, _MOST_CONTAINERS, _MOST, _MOST_CORES = 10_000, 50, "16Ti", "100k"
_AMOUNTS = "[{}].all(found, found.all(amounts, amounts.all(name, {})))".format(
    ", ".join(
        f"(p.template.spec.containers + p.template.spec.?initContainers.orValue([])).map(c, c.?resources.?{what}.orValue({{}}))"
        for what in ("requests", "limits")
    )
    + ", [p.template.spec.?overhead.orValue({}), p.template.spec.?resources.?requests.orValue({})]",
    "quantity(string(amounts[name])).compareTo(quantity('0')) >= 0 && "
    f"quantity(string(amounts[name])).compareTo(quantity(name == 'cpu' ? '{_MOST_CORES}' : '{_MOST}')) <= 0",
)


def _workloads(site: Site) -> Object:
    """From every source, Kueue among them: amounts below zero, and sums that no number holds, would be room in the queue."""
    return validating(
        WORKLOADS,
        [resources("kueue.x-k8s.io", "workloads", WRITTEN)],
        conditions={
            "in-a-workspace": site.in_workspace,
            "new": "request.operation == 'CREATE' || object.spec != oldObject.spec",
        },
        rules=(
            Rule(
                "object.spec.podSets.all(p, p.?count.orValue(1) >= 0) && "
                f"object.spec.podSets.map(p, p.?count.orValue(1)).sum() <= {_MOST_PODS}",
                f"at most {_MOST_PODS:,} pods may be queued at once: queue fewer",
            ),
            Rule(
                "object.spec.podSets.all(p, size(p.template.spec.containers) + "
                f"size(p.template.spec.?initContainers.orValue([])) <= {_MOST_CONTAINERS})",
                f"a queued pod has at most {_MOST_CONTAINERS} containers: use fewer",
            ),
            Rule(
                f"object.spec.podSets.all(p, {_AMOUNTS})",
                f"amounts of a queued pod lie between 0 and {_MOST}, and {_MOST_CORES} cores: ask for what it needs",
            ),
        ),
    )
