"""The refusals of Pod Security's `baseline`, repeated for sites where that plugin is off and for workspaces whose level is
lifted for bought sysctls. Also refuses volumes that a node would mount past the network policies."""

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.guards.kinds import Rule
from gpuaas.providers.kubeapi.guards.site import cel_list

# those that are the pod's own on every supported version
SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
_CAPABILITIES = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID "
    "SYS_CHROOT"
)
VOLUMES = "configMap secret emptyDir downwardAPI projected persistentVolumeClaim ephemeral image"
_SELINUX = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"]

_POD = "variables.spec.?securityContext"
# the contexts of the pod and of each container
_CONTEXTS = (
    "([variables.spec.?securityContext] + variables.containers.map(c, c.?securityContext)).all(s, {holds})"
)
_SYSCTLS = f"namespaceObject.metadata.?annotations[?'{names.SYSCTLS}'].orValue('').split(',')"
_HANDLERS = (
    "[c.?livenessProbe, c.?readinessProbe, c.?startupProbe, c.?lifecycle.?postStart, c.?lifecycle.?preStop]"
)


def _everywhere(holds: str) -> str:
    return _CONTEXTS.format(holds=holds)


def _containers(holds: str) -> str:
    return f"variables.containers.all(c, {holds})"


_HOST = "the node's own network, processes, ports and devices may not be used"
RULES: tuple[Rule, ...] = (
    Rule(
        "!variables.spec.?hostNetwork.orValue(false) && !variables.spec.?hostPID.orValue(false) && "
        "!variables.spec.?hostIPC.orValue(false)",
        f"{_HOST}: take hostNetwork, hostPID and hostIPC out",
    ),
    Rule(
        _containers("c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"),
        f"{_HOST}: take hostPort out and make a service",
    ),
    Rule(
        _containers("!c.?securityContext.?privileged.orValue(false)"),
        "privileged containers may not be used: take securityContext.privileged out",
    ),
    Rule(
        _containers(
            "c.?securityContext.?capabilities.?add.orValue([]).all(name, name in "
            f"{cel_list(_CAPABILITIES.split())})"
        ),
        f"a container may add only these capabilities: {_CAPABILITIES.replace(' ', ', ')}",
    ),
    Rule(
        _containers("c.?securityContext.?procMount.orValue('Default') == 'Default'"),
        "procMount may only be Default",
    ),
    Rule(
        _everywhere("s.?seccompProfile.?type.orValue('') != 'Unconfined'")
        + " && "
        + _everywhere("s.?appArmorProfile.?type.orValue('') != 'Unconfined'")
        + " && variables.annotations.all(key, !key.startsWith('container.apparmor.security.beta.kubernetes.io/') "
        "|| variables.annotations[key] != 'unconfined')",
        "seccomp and AppArmor may not be Unconfined: leave them out or use RuntimeDefault",
    ),
    Rule(
        _everywhere(
            f"s.?seLinuxOptions.?type.orValue('') in {cel_list(_SELINUX)} && "
            "s.?seLinuxOptions.?user.orValue('') == '' && s.?seLinuxOptions.?role.orValue('') == ''"
        ),
        "seLinuxOptions may set no user, no role and only the types of containers",
    ),
    Rule(
        _everywhere("!s.?windowsOptions.?hostProcess.orValue(false)"),
        f"{_HOST}: take windowsOptions.hostProcess out",
    ),
    Rule(
        _containers(
            f"{_HANDLERS}.all(h, h.?httpGet.?host.orValue('') == '' && h.?tcpSocket.?host.orValue('') == '')"
        ),
        "probes and lifecycle hooks may not name a host: leave it out, the pod's own address is meant",
    ),
    Rule(
        f"{_POD}.?sysctls.orValue([]).all(s, s.name in {cel_list(SAFE_SYSCTLS)} || s.name in {_SYSCTLS})",
        "a sysctl of the pod is not among those that this workspace's flavors give",
    ),
    Rule(
        "variables.spec.?volumes.orValue([]).all(v, "
        + " || ".join(f"has(v.{kind})" for kind in VOLUMES.split())
        + ")",
        f"only these volumes may be used: {VOLUMES.replace(' ', ', ')}; keep data in a persistentVolumeClaim",
    ),
)
