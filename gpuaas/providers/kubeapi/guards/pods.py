"""Rules for pods, whoever creates them, and for the templates from which controllers create pods."""

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards import devices, security, spot
from gpuaas.providers.kubeapi.guards.kinds import Rule, resources, validating
from gpuaas.providers.kubeapi.guards.site import Site, cel_list, cel_text

PODS = "gpuaas-pods"
STATUS = "gpuaas-pod-status"
TEMPLATES = "gpuaas-templates"

# the site's own: its pods go to a node each, tolerations and all
DAEMON = "request.userInfo.username == 'system:serviceaccount:kube-system:daemon-set-controller'"
# plugins of the API server add these
_NODE_TAINTS = [f"node.kubernetes.io/{each}" for each in ("not-ready", "unreachable", "memory-pressure")]
_NEEDS_SELECTOR = "the nodeSelector of its pool is missing: the pod's own leads to other nodes than those of what it asks for"
# what each asks for is put in by a mutation, so a pod that still lacks it has something else there
_PINNED = (
    "variables.daemon || variables.wanted.all(pair, "
    "variables.spec.?nodeSelector[?pair.split('=')[0]].orValue({missing}) == pair.split('=')[1])"
)
_KNOWN_TOLERATIONS = (
    "variables.spec.?tolerations.orValue([]).all(t, t.?key.orValue('') != '' && "
    f"(t.key in {cel_list([names.GPU_TAINT, *_NODE_TAINTS])} || t.key in variables.bought || "
    "(variables.daemon && t.key.startsWith('node.kubernetes.io/')) || "
    "(t.?operator.orValue('Equal') == 'Equal' && t.key + '=' + t.?value.orValue('') in variables.pools)))"
)
_NO_FOREIGN_AFFINITY = (
    "[variables.spec.?affinity.?podAffinity, variables.spec.?affinity.?podAntiAffinity].all(a, "
    "(a.?requiredDuringSchedulingIgnoredDuringExecution.orValue([]) + "
    "a.?preferredDuringSchedulingIgnoredDuringExecution.orValue([]).map(w, w.podAffinityTerm)).all(t, "
    "!has(t.namespaceSelector) && t.?namespaces.orValue([]).all(n, n == request.namespace)))"
)
_MEMBERS = " || ".join(
    f"variables.spec.?serviceAccountName.orValue('').startsWith('{prefix}')"
    for prefix in names.MEMBER_PREFIXES
)
_SUSPENDED = f"namespaceObject.metadata.?annotations[?'{names.SUSPENDED}'].orValue('') == 'true'"

DEFAULT_SCHEDULER = "default-scheduler"
# of a pod's status, what its node and its scheduler tell
_CONDITIONS = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
_STATE = (
    "phase",
    "startTime",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
)

# of pods and of templates alike
_RULES: tuple[Rule, ...] = (
    Rule(
        "!variables.spec.?priorityClassName.orValue('').startsWith('system-')",
        "system priority classes would evict other tenants' pods: leave priorityClassName out",
    ),
    Rule(
        f"!({_MEMBERS})",
        "a pod may not run as a member of the workspace: use the default service account or one of your own",
    ),
    *devices.RULES,
    Rule(
        _KNOWN_TOLERATIONS,
        "only GPU taints and those of this workspace's pools may be tolerated: "
        "leave tolerations out, they are added where they are needed",
    ),
    Rule(
        _NO_FOREIGN_AFFINITY,
        "affinity to pods of other namespaces may not be used: leave namespaces and namespaceSelector out",
    ),
    *security.RULES,
    *spot.RULES,
)
_TEMPLATE_SPEC = (
    "request.kind.kind == 'CronJob' ? {object}.spec.jobTemplate.spec.template : "
    "request.kind.kind == 'PodTemplate' ? {object}.template : {object}.spec.template"
)


def scheduler(site: Site) -> Rule:
    further = site.further_schedulers
    others = f" and {', '.join(further)}" if further else ""
    return Rule(
        f"variables.spec.?schedulerName.orValue('{DEFAULT_SCHEDULER}') in {cel_list([DEFAULT_SCHEDULER, *further])}",
        f"another scheduler than the default one{others} may not be used: leave schedulerName out",
    )


TEMPLATE_RULES: tuple[Rule, ...] = (
    Rule(
        "variables.spec.?nodeName.orValue('') == ''",
        "a pod may not choose its node by spec.nodeName: use nodeSelector or affinity",
    ),
    Rule(
        f"[variables.annotations, variables.template.?metadata.?labels.orValue({{}})].all(found, "
        f"found.all(key, !key.startsWith('{names.DOMAIN}/')))",
        f"labels and annotations of {names.DOMAIN} belong to the portal: take them out",
    ),
    # what a suspended workspace bought is not in its pins, and its members may prepare workloads for later
    *(
        Rule(f"({_SUSPENDED}) || ({rule.expression})", rule.sentence) if rule is devices.BOUGHT else rule
        for rule in _RULES
    ),
    *spot.OF_TEMPLATES,
    Rule(_PINNED.format(missing="pair.split('=')[1]"), _NEEDS_SELECTOR),
)


def policies(site: Site) -> list[Object]:
    return [_templates(site), _pods(site), _status(site)]


def _status(site: Site) -> Object:
    """What is metered of a pod, and when the quota lets it go. An account of the namespace may have the right to its status: that of
    a virtual cluster's syncer, which carries readiness gates. Schedulers and controllers of the site are none of these."""
    conditions = f"{{0}}.?status.?conditions.orValue([]).filter(c, c.type in {cel_list(_CONDITIONS)})"
    return validating(
        STATUS,
        [resources("", "pods/status", ["UPDATE"])],
        conditions={"in-a-workspace": site.in_workspace, "by-members": site.members},
        rules=(
            Rule(
                " && ".join(
                    [
                        f"{conditions.format('object')} == {conditions.format('oldObject')}",
                        *(f"object.?status.?{field} == oldObject.?status.?{field}" for field in _STATE),
                    ]
                ),
                "the state of a pod is set by its node and its scheduler: set only conditions of your own",
            ),
        ),
    )


def _pods(site: Site) -> Object:
    return validating(
        PODS,
        [resources("", "pods pods/ephemeralcontainers pods/resize", ["CREATE", "UPDATE"])],
        # Controllers make pods for tenants, so CREATE spares nobody; when they update one (to take off a finalizer),
        # or others change nothing that counts, a namespace that was made smaller since must not stop them.
        conditions={
            "in-a-workspace": site.in_workspace,
            "made-or-changed-by-others": f"request.operation == 'CREATE' || (({site.outsiders}) && "
            "(object.spec != oldObject.spec || "
            "object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})))",
        },
        variables={
            "spec": "object.spec",
            "annotations": "object.metadata.?annotations.orValue({})",
            "daemon": DAEMON,
            **devices.VARIABLES,
            **spot.VARIABLES,
        },
        rules=_pod_rules(site),
        sentences={
            **spot.SENTENCES,
            _NEEDS_SELECTOR: cel_text(f"{_NEEDS_SELECTOR}; GPU@selector: ") + " + variables.pins.join('; ')",
            f"{names.PROBE} is the portal's own annotation": f"'guards act: ' + variables.annotations['{names.PROBE}']",
        },
    )


def _pod_rules(site: Site) -> tuple[Rule, ...]:
    return (
        Rule(
            # answers whether mutations act too; see probe.py
            f"!('{names.PROBE}' in variables.annotations)",
            f"{names.PROBE} is the portal's own annotation",
        ),
        Rule(
            f"request.operation != 'CREATE' || !({_SUSPENDED})",
            "this workspace is suspended, nothing may be started in it: resume it in the portal",
        ),
        Rule(
            "request.operation != 'CREATE' || !has(object.spec.nodeName)",
            "a pod may not choose its node by spec.nodeName: use nodeSelector or affinity",
        ),
        scheduler(site),
        *_RULES,
        Rule(
            f"variables.spec.?priority.orValue(0) <= {site.ceiling}",
            "priority classes above the site's default would evict other tenants' pods: "
            "leave priorityClassName out",
        ),
        *spot.of_pods(site),
        Rule(_PINNED.format(missing="''"), _NEEDS_SELECTOR),
    )


def _templates(site: Site) -> Object:
    """Early and in the tenant's own request: what comes of a template is checked again as a pod."""
    same = f"({_TEMPLATE_SPEC.format(object='object')}) == ({_TEMPLATE_SPEC.format(object='oldObject')})"
    return validating(
        TEMPLATES,
        [
            resources("", "podtemplates replicationcontrollers", ["CREATE", "UPDATE"]),
            resources("apps", "deployments replicasets statefulsets daemonsets", ["CREATE", "UPDATE"]),
            resources("batch", "jobs cronjobs", ["CREATE", "UPDATE"]),
        ],
        conditions={
            "in-a-workspace": site.in_workspace,
            "by-others": site.outsiders,
            "made-or-changed": f"request.operation == 'CREATE' || !({same})",
        },
        variables={
            "template": _TEMPLATE_SPEC.format(object="object"),
            "spec": "variables.template.spec",
            "annotations": "variables.template.?metadata.?annotations.orValue({})",
            "daemon": "false",
            **devices.VARIABLES,
            **spot.VARIABLES,
        },
        rules=(scheduler(site), *TEMPLATE_RULES),
        sentences=spot.SENTENCES,
    )
