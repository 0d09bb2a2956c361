"""Additions to pods so that tenants need not know the site: node selectors, tolerations and affinity.

Fields that a pod sets itself are never changed; if they contradict what was bought, the refusals say so.
"""

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.guards import devices
from gpuaas.providers.kubeapi.guards.kinds import mutation, resources
from gpuaas.providers.kubeapi.guards.pods import DAEMON
from gpuaas.providers.kubeapi.guards.probe import ANSWERED
from gpuaas.providers.kubeapi.guards.site import Site

PLACES = "gpuaas-places"
HIDDEN = "gpuaas-hidden-devices"

_PROBED = (
    f"'{names.PROBE}' in object.metadata.?annotations.orValue({{}}) ? [JSONPatch{{op: 'replace', "
    f"path: '/metadata/annotations/' + jsonpatch.escapeKey('{names.PROBE}'), value: '{ANSWERED}'}}] : []"
)
_SELECTORS = (
    "(size(variables.wanted) == 0 || has(object.spec.nodeSelector) ? [] : "
    "[JSONPatch{op: 'add', path: '/spec/nodeSelector', value: {}}]) + "
    "variables.wanted.filter(pair, !(pair.split('=')[0] in object.spec.?nodeSelector.orValue({})))"
    ".map(pair, JSONPatch{op: 'add', path: '/spec/nodeSelector/' + jsonpatch.escapeKey(pair.split('=')[0]), "
    "value: pair.split('=')[1]})"
)
# Exists for taints that are named after a device, Equal for those of a pool
_TOLERATIONS = (
    "(has(object.spec.tolerations) ? [] : [JSONPatch{op: 'add', path: '/spec/tolerations', value: []}]) + "
    f"(['{names.GPU_TAINT}'] + variables.pins.map(p, p.split('@')[0]).filter(name, name != '{names.GPU_TAINT}'))"
    ".filter(key, !object.spec.?tolerations.orValue([]).exists(t, t.?key.orValue('') == key && "
    "t.?operator.orValue('') == 'Exists' && t.?effect.orValue('NoSchedule') == 'NoSchedule'))"
    ".map(key, JSONPatch{op: 'add', path: '/spec/tolerations/-', "
    "value: {'key': key, 'operator': 'Exists', 'effect': 'NoSchedule'}}) + "
    "variables.pools.filter(pair, !object.spec.?tolerations.orValue([]).exists(t, "
    "t.?key.orValue('') == pair.split('=')[0] && t.?value.orValue('') == pair.split('=')[1]))"
    ".map(pair, JSONPatch{op: 'add', path: '/spec/tolerations/-', "
    "value: {'key': pair.split('=')[0], 'operator': 'Equal', 'value': pair.split('=')[1]}})"
)
_TERMS = (
    "{'preferredDuringSchedulingIgnoredDuringExecution': variables.near.map(key, {'weight': dyn(100), "
    "'podAffinityTerm': dyn({'topologyKey': dyn(key), 'labelSelector': dyn({})})})}"
)
_NEAR = (
    "size(variables.near) == 0 || has(object.spec.affinity) && has(object.spec.affinity.podAffinity) ? [] : "
    f"has(object.spec.affinity) ? [JSONPatch{{op: 'add', path: '/spec/affinity/podAffinity', value: {_TERMS}}}] : "
    f"[JSONPatch{{op: 'add', path: '/spec/affinity', value: {{'podAffinity': {_TERMS}}}}}]"
)


def _hide(kind: str) -> str:
    """Entries of its own win over the image's variables and over envFrom. Containers that are there already cannot
    be changed, so an update adds them to new ones alone."""
    path = f"'/spec/{kind}/' + string(i) + '/env"
    entries = [f"{{'name': '{name}', 'value': '{devices.HIDE}'}}" for name in devices.HIDDEN]
    new = (
        f"!(request.operation == 'UPDATE' && oldObject.spec.?{kind}.orValue([]).exists(o, o.name == c.name))"
    )
    hidden = f"object.spec.?{kind}.orValue([]).transformList(i, c, {new} && !({devices.HAS_DEVICE}) && "
    first = f"{hidden}!has(c.env), JSONPatch{{op: 'add', path: {path}', value: [{', '.join(entries)}]}})"
    further = [
        f"{hidden}has(c.env) && !c.env.exists(e, e.name == '{name}'), "
        f"JSONPatch{{op: 'add', path: {path}/-', value: {entry}}})"
        for name, entry in zip(devices.HIDDEN, entries, strict=True)
    ]
    return " + ".join([first, *further])


_HIDE = (
    f"request.operation == 'CREATE' ? {_hide('containers')} + {_hide('initContainers')} "
    f": {_hide('ephemeralContainers')}"
)


def policies(site: Site, version: str) -> list[Object]:
    read = {"spec": "object.spec", **devices.VARIABLES}
    return [
        mutation(
            version,
            PLACES,
            [resources("", "pods", ["CREATE"])],
            conditions={"in-a-workspace": site.in_workspace, "no-daemon": f"!({DAEMON})"},
            variables={
                **read,
                "near": f"namespaceObject.metadata.?annotations[?'{names.NEAR}'].orValue('').split(',')"
                ".filter(key, key != '')",
            },
            patches=(_PROBED, _SELECTORS, _TOLERATIONS, _NEAR),
        ),
        mutation(
            version,
            HIDDEN,
            [resources("", "pods", ["CREATE"]), resources("", "pods/ephemeralcontainers", ["UPDATE"])],
            conditions={"in-a-workspace": site.in_workspace},
            variables=read,
            patches=(_HIDE,),
        ),
    ]
