"""CEL for the devices that a pod requests, and for every way around requests that a container runtime offers."""

from gpuaas.providers.base import NO_DEVICE, SITE_VARIABLES
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.guards.kinds import Rule
from gpuaas.providers.kubeapi.guards.site import cel_list, cel_text

# those that images set for themselves: as HIDE, the vendor's runtime gives such a container no device
HIDDEN = tuple(name for name in SITE_VARIABLES if name.endswith("_VISIBLE_DEVICES"))
HIDE = "void"
# CDI and NRI hand devices to containers by annotation, CRI-O and Kata take settings, Multus joins networks that no
# NetworkPolicy sees, and a mirror pod is believed to be the node's own
ANNOTATIONS = (
    r"^([^/]*[.])?(cdi[.]k8s[.]io|nri[.]io)/|^io[.]kubernetes[.]cri-o[.]|^io[.]katacontainers[.]"
    r"|^k8s[.]v1[.]cni[.]cncf[.]io/networks$|^v1[.]multus-cni[.]io/|^kubernetes[.]io/config[.]"
)
_VARIABLES = cel_list(SITE_VARIABLES)

# every container of a pod, whatever its kind
CONTAINERS = (
    "variables.spec.containers + variables.spec.?initContainers.orValue([]) + "
    "variables.spec.?ephemeralContainers.orValue([])"
)
PINS = f"namespaceObject.metadata.?annotations[?'{names.PINS}'].orValue('').split(';').filter(p, p != '')"
# the one selector of all pods of a workspace, where it has one
COMMON = (
    f"namespaceObject.metadata.?annotations[?'{names.PLUGIN_NODE_SELECTOR}'].orValue('').split(',')"
    ".filter(pair, pair != '')"
)
# the device classes that were bought: not whatever else selects the same devices now
CLASSES = (
    f"namespaceObject.metadata.?annotations[?'{names.CLASSES}'].orValue('').split(',').filter(c, c != '')"
    ".map(c, c.split('=')[0])"
)
# the names in the pins, and for a device class the name that every class has
BOUGHT_NAMES = (
    "variables.pins.map(p, p.split('@')[0]) + "
    f"variables.classes.map(c, {cel_text(names.DEVICE_CLASS_PREFIX)} + c)"
)
# labels of the nodes of all that was bought; a taint of the same key and value is their pool's own
POOLS = f"namespaceObject.metadata.?annotations[?'{names.POOLS}'].orValue('').split(',').filter(p, p != '')"
# names with a slash are extended resources; limits and requests of those are equal by validation
ASKED = (
    "variables.containers.map(c, c.?resources.?limits.orValue({})"
    ".map(name, name.contains('/') && string(c.resources.limits[name]) != '0', name))"
    ".filter(list, size(list) > 0)"
)
# labels of the nodes where what is asked for is
WANTED = (
    "(variables.common + variables.pins.filter(p, variables.asked.exists(list, p.split('@')[0] in list))"
    ".map(p, p.split('@')[1])).join(',').split(',').filter(pair, pair != '')"
)
# what is claimed (DRA) comes by CDI, whatever these variables say, so a claim is no reason to let the image's count
HAS_DEVICE = (
    "c.?resources.?limits.orValue({})"
    ".exists(name, name in variables.bought && string(c.resources.limits[name]) != '0')"
)


# of whatever has set `spec` and `annotations` before
VARIABLES = {
    "containers": CONTAINERS,
    "pins": PINS,
    "classes": CLASSES,
    "common": COMMON,
    "pools": POOLS,
    "bought": BOUGHT_NAMES,
    "asked": ASKED,
    "wanted": WANTED,
}


BOUGHT = Rule(
    "variables.asked.all(list, list.all(name, name in variables.bought))",
    "this workspace did not buy a GPU or device that the pod asks for: "
    "ask for one that it has, or add it to the workspace in the portal",
)
RULES: tuple[Rule, ...] = (
    BOUGHT,
    Rule(
        f"variables.containers.all(c, c.?env.orValue([]).all(e, !(e.name in {_VARIABLES}) || "
        f"(e.?value.orValue('') in {cel_list(sorted(NO_DEVICE))} && !has(e.valueFrom) && !({HAS_DEVICE}))))",
        "NVIDIA_VISIBLE_DEVICES and its like may not be set (but for none or void, on a container without a GPU): "
        "ask for GPUs by resources.limits",
    ),
    Rule(
        "variables.containers.all(c, c.?envFrom.orValue([]).all(f, f.?prefix.orValue('') == '' || "
        f"!{_VARIABLES}.exists(name, name.startsWith(f.prefix))))",
        "the prefix of envFrom could complete the name NVIDIA_VISIBLE_DEVICES or its like: "
        "name the variables one by one in env",
    ),
    Rule(
        "variables.containers.all(c, c.?volumeMounts.orValue([]).all(m, "
        "!m.mountPath.contains('nvidia-container-devices')))",
        "devices may not be asked for by a mount: ask for GPUs by resources.limits",
    ),
    Rule(
        f"variables.annotations.all(key, !key.matches('{ANNOTATIONS}'))",
        "annotations that hand out devices, networks or settings of the node (cdi.k8s.io, nri.io, cri-o, kata, "
        "multus, kubernetes.io/config) may not be used: ask for GPUs by resources.limits",
    ),
    Rule(
        "!variables.spec.?runtimeClassName.orValue('').contains('nvidia') || size(variables.asked) > 0 || "
        "variables.containers.exists(c, size(c.?resources.?claims.orValue([])) > 0)",
        "an NVIDIA runtime class needs a GPU in resources.limits",
    ),
)
