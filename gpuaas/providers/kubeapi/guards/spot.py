"""Rules for workspaces that borrow their GPUs: their pods are the first to go, and are gone when the notice is over.

A pod elsewhere may not name their class: it could end more slowly than the notice, and the scheduler, for which all pods of the
class are alike, would wait for that one while a borrower keeps the GPUs (kube-scheduler preempts for nobody whose victims end).
"""

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards.kinds import Rule, resources, validating
from gpuaas.providers.kubeapi.guards.site import Site, cel_text
from gpuaas.providers.kubeapi.spot import PRIORITY

NOTICES = "gpuaas-notices"

VARIABLES = {
    # 0 where the GPUs were bought
    "notice": f"int(namespaceObject.metadata.?annotations[?'{names.NOTICE}'].orValue('0'))",
}
_CLASS = f"this workspace borrows its GPUs, so its pods give way to buyers' pods: set priorityClassName to {names.SPOT}"
_BOUGHT = f"priorityClassName {names.SPOT} is of workspaces that borrow their GPUs: take it out"
_GRACE = "this workspace borrows its GPUs, and its pods have to end within its notice: lower terminationGracePeriodSeconds"
_PROBES = "this workspace borrows its GPUs: take terminationGracePeriodSeconds out of probes, by which a pod could outlast its notice"
_DELETED = (
    "this workspace borrows its GPUs, and its pods have to end within its notice: lower the grace period"
)

# of pods and of templates alike
RULES = (
    Rule(
        f"variables.notice == 0 || variables.spec.?priorityClassName.orValue('') == '{names.SPOT}'",
        _CLASS,
    ),
    Rule(
        f"variables.notice != 0 || variables.spec.?priorityClassName.orValue('') != '{names.SPOT}'",
        _BOUGHT,
    ),
    Rule(
        "variables.notice == 0 || variables.spec.?terminationGracePeriodSeconds.orValue(30) <= variables.notice",
        _GRACE,
    ),
    Rule(
        "variables.notice == 0 || variables.containers.all(c, "
        "!has(c.livenessProbe) || !has(c.livenessProbe.terminationGracePeriodSeconds)) && variables.containers.all(c, "
        "!has(c.startupProbe) || !has(c.startupProbe.terminationGracePeriodSeconds))",
        _PROBES,
    ),
)
# of pods alone: what the class is worth where somebody has made another one of its name
_OF_PODS = (
    Rule(
        f"variables.notice == 0 || variables.spec.?priority.orValue(0) == {PRIORITY}",
        f"the site's priority class {names.SPOT} is not the portal's: ask the site's operator to delete it",
    ),
)
_ASKS = (
    "size(variables.asked) > 0 || variables.containers.exists(c, size(c.?resources.?claims.orValue([])) > 0)"
)
_FREE = (
    "this workspace pays for the GPUs that it borrows and for nothing else, so each of its pods has to ask for one: "
    "ask for a GPU in resources.limits, or run the pod in another workspace"
)
# of templates that others make
OF_TEMPLATES = (Rule(f"variables.notice == 0 || {_ASKS}", _FREE),)
_NUMBER = " + ' (at most ' + string(variables.notice) + ')'"
SENTENCES = {_GRACE: f"{cel_text(_GRACE)}{_NUMBER}"}


def of_pods(site: Site) -> tuple[Rule, ...]:
    """What a controller makes, its template was asked for; so the portal's own movers of files need no exception by a mark."""
    return (*_OF_PODS, Rule(f"variables.notice == 0 || !({site.outsiders}) || {_ASKS}", _FREE))


def policies(site: Site) -> list[Object]:
    """Who deletes a pod may give it longer than it has by itself, and the scheduler does not shorten what has begun."""
    return [
        validating(
            NOTICES,
            [resources("", "pods", ["DELETE"]), resources("", "pods/eviction", ["CREATE"])],
            conditions={"in-a-workspace": site.in_workspace, "by-others": site.outsiders},
            variables={
                **VARIABLES,
                "options": "request.operation == 'DELETE' ? dyn(request.options) : dyn(object).?deleteOptions.orValue({})",
            },
            rules=(
                Rule(
                    "variables.notice == 0 || variables.options.?gracePeriodSeconds.orValue(0) <= variables.notice",
                    _DELETED,
                ),
            ),
            sentences={_DELETED: f"{cel_text(_DELETED)}{_NUMBER}"},
        )
    ]
