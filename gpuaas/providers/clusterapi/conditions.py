"""Translates Cluster API's conditions for people who wait for a cluster: the step that each belongs to, and a sentence.

A pure table. Unknown types and reasons of newer controllers still give a readable sentence.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuaas.providers.kubeapi.client import Object

# steps; MACHINE is the pool's or the control plane's, depending on the machine
ORDER, NETWORK, CONTROL, API, POOL, MACHINE, CHECKS, GONE = (
    "order",
    "network",
    "control-plane",
    "api",
    "pool",
    "machine",
    "checks",
    "gone",
)
STEPS = frozenset({ORDER, NETWORK, CONTROL, API, POOL, MACHINE, CHECKS, GONE})

# condition types that are good when False
ADVERSE = {"Deleting", "Paused", "Remediating", "RollingOut", "ScalingDown", "ScalingUp", "Updating"}

# the step of a condition by its object's kind, and for some by its type
BY_KIND: dict[str, str] = {
    "Cluster": CHECKS,
    "ClusterClass": ORDER,
    "KubeadmControlPlane": CONTROL,
    "MachineDeployment": POOL,
    "MachineSet": POOL,
    "MachinePool": POOL,
    "MachineHealthCheck": POOL,
    "Machine": MACHINE,
    "KubeadmConfig": MACHINE,
}
BY_TYPE: dict[tuple[str, str], str] = {
    ("Cluster", "TopologyReconciled"): ORDER,
    ("Cluster", "InfrastructureReady"): NETWORK,
    ("Cluster", "ControlPlaneInitialized"): CONTROL,
    ("Cluster", "ControlPlaneAvailable"): CONTROL,
    ("Cluster", "ControlPlaneMachinesReady"): CONTROL,
    ("Cluster", "ControlPlaneMachinesUpToDate"): CONTROL,
    ("Cluster", "RemoteConnectionProbe"): API,
    ("Cluster", "WorkersAvailable"): POOL,
    ("Cluster", "WorkerMachinesReady"): POOL,
    ("Cluster", "WorkerMachinesUpToDate"): POOL,
}

SUBJECTS = {
    "APIEndpointReady": "the address of the API",
    "APIServerIngressReadyCondition": "its route to the address of the API",
    "APIServerPodHealthy": "the API server's pod",
    "APIServerProvisioned": "the API server",
    "Available": "",
    "BootstrapConfigReady": "its boot script",
    "BootstrapExecSucceeded": "its boot script",
    "CertificatesAvailable": "the certificates",
    "ContainerProvisioned": "the machine",
    "ControlPlaneAvailable": "the control plane",
    "ControlPlaneComponentsHealthy": "the control plane's components",
    "ControlPlaneInitialized": "the control plane",
    "ControlPlaneMachinesReady": "the control plane's machines",
    "ControlPlaneMachinesUpToDate": "the control plane's machines",
    "ControllerManagerPodHealthy": "the controller manager's pod",
    "DataSecretAvailable": "its boot script",
    "EtcdClusterHealthy": "etcd",
    "EtcdMemberHealthy": "its member of etcd",
    "EtcdPodHealthy": "etcd's pod",
    "EtcdProvisioned": "etcd",
    "ExternallyRemediated": "its replacement",
    "FloatingAddressFromPoolReady": "its floating IP",
    "HealthCheckSucceeded": "its health check",
    "InfrastructureReady": "its infrastructure",
    "Initialized": "the control plane",
    "InstanceReady": "its server",
    "LoadBalancerAvailable": "the address of the API",
    "MachinesReady": "its machines",
    "MachinesUpToDate": "its machines",
    "NetworkReady": "the network",
    "NodeHealthy": "its node",
    "NodeKubeadmLabelsAndTaintsSet": "its node's labels and taints",
    "NodeProvisioned": "its node",
    "NodeReady": "its node",
    "OwnerRemediated": "its replacement",
    "RefVersionsUpToDate": "the class's templates",
    "RemediationAllowed": "the health check",
    "RemoteConnectionProbe": "the cluster's API",
    "ReplicasReady": "its machines",
    "RouterReady": "the router",
    "SchedulerPodHealthy": "the scheduler's pod",
    "SecurityGroupsReady": "the security groups",
    "TopologyReconciled": "the order",
    "UpToDate": "",
    "VMProvisioned": "its machine",
    "VariablesReady": "the class's variables",
    "WorkerMachinesReady": "the workers",
    "WorkerMachinesUpToDate": "the workers",
    "WorkersAvailable": "the workers",
}

# the text after "…: "
REASONS = {
    "APIEndpointConfigFailed": "there is no address for the API",
    "Available": "available",
    "AvailableUnknown": "nothing has been reported yet",
    "CannotBeRemediated": "broken, and it cannot be replaced automatically",
    "ClusterClassNotReconciled": "the class is not ready for orders",
    "ClusterCreating": "being created",
    "ClusterUpgrading": "being upgraded",
    "ConnectionDown": "unknown, because the cluster's API does not answer",
    "ControlPlaneUpgradePending": "the control plane is waiting to be upgraded",
    "DataSecretProvided": "provided manually",
    "Deleting": "being deleted",
    "DeletingNode": "its node is being removed from the cluster",
    "DeletionCompleted": "deleted",
    "DependencyFailed": "something it depends on has failed",
    "DoesNotExist": "does not exist",
    "DrainingNode": "it is being drained",
    "Failed": "it has failed",
    "FloatingIPError": "the cloud failed to allocate or release a floating IP",
    "HasRemediateAnnotation": "its replacement was requested",
    "HealthCheckSucceeded": "passed",
    "HealthUnknown": "its health is unknown",
    "Healthy": "healthy",
    "InPlaceUpdateFailed": "the in-place update has failed",
    "InPlaceUpdating": "being updated in place",
    "Initialized": "initialized",
    "InspectionFailed": "it cannot be inspected yet",
    "InstanceCreateFailed": "the cloud refused to create it",
    "InstanceDeleteFailed": "the cloud failed to delete it",
    "InstanceDeleted": "it no longer exists in the cloud",
    "InstanceNotFound": "it no longer exists in the cloud",
    "InstanceNotReady": "the cloud is creating it",
    "InstanceStateError": "the cloud reports it in the state ERROR",
    "InternalError": "the controller had an error and is trying again",
    "InvalidConditionReported": "its provider reports something unreadable",
    "InvalidMachineSpec": "the machine cannot be created as ordered",
    "LifecycleHookBlocking": "a hook of the management cluster blocks it",
    "LoadBalancerMemberError": "the load balancer failed to add or remove it",
    "MachineDeleting": "the broken machine is being deleted",
    "MachineDeploymentsCreatePending": "pools are created after the upgrade",
    "MachineDeploymentsUpgradeDeferred": "pools stay at their release, as requested",
    "MachineDeploymentsUpgradePending": "pools are waiting to be upgraded",
    "MachinePoolsCreatePending": "pools are created after the upgrade",
    "MachinePoolsUpgradeDeferred": "pools stay at their release, as requested",
    "MachinePoolsUpgradePending": "pools are waiting to be upgraded",
    "NetworkCreateFailed": "the cloud failed to create it",
    "NoReplicas": "there are none",
    "NoWorkers": "there are none",
    "NodeDeleted": "it no longer exists in the cluster",
    "NodeDoesNotExist": "it has not joined the cluster",
    "NodeHealthy": "in good health",
    "NodeHealthyUnknown": "its health is unknown",
    "NodeNotHealthy": "not in good health",
    "NodeNotReady": "not ready",
    "NodeReady": "ready",
    "NodeReadyUnknown": "it is not known whether it is ready",
    "NodeStartupTimeout": "it has not joined the cluster in time",
    "NotAvailable": "not available yet",
    "NotDeleting": "not being deleted",
    "NotHealthy": "unhealthy",
    "NotInitialized": "not initialized yet",
    "NotPaused": "not paused",
    "NotProvisioned": "not created yet",
    "NotReady": "not ready yet",
    "NotRemediating": "nothing is being replaced",
    "NotRollingOut": "no rollout in progress",
    "NotScalingDown": "nothing is being removed",
    "NotScalingUp": "nothing is being added",
    "NotSet": "not set yet",
    "NotSucceeded": "it has not finished",
    "NotUpToDate": "not up to date yet",
    "NotUpdating": "no update in progress",
    "ObjectDeleted": "it has been deleted",
    "ObjectDoesNotExist": "does not exist yet",
    "OpenStackError": "the cloud answered with an error",
    "Paused": "paused at the management cluster",
    "ProbeFailed": "it does not answer yet",
    "ProbeSucceeded": "it answers",
    "Provisioned": "created",
    "Provisioning": "starting",
    "Ready": "ready",
    "ReadyUnknown": "nothing has been reported yet",
    "ReconcileFailed": "the management cluster cannot apply it",
    "ReconcileSucceeded": "applied",
    "RefVersionsNotUpToDate": "at a version that is no longer served",
    "RefVersionsUpToDate": "at served versions",
    "Remediating": "broken machines are being replaced",
    "RemediationAllowed": "broken machines may be replaced",
    "RemediationDeferred": "it is broken and waiting to be replaced",
    "RemediationRequestCreationFailed": "requesting its replacement failed",
    "RemediationTemplateNotFound": "the template for its replacement does not exist",
    "RollingOut": "machines are being replaced one by one",
    "RollingOutUnknown": "nothing has been reported yet",
    "RouterCreateFailed": "the cloud failed to create it",
    "Running": "running",
    "ScalingDown": "machines are being removed",
    "ScalingDownUnknown": "nothing has been reported yet",
    "ScalingUp": "machines are being added",
    "ScalingUpUnknown": "nothing has been reported yet",
    "SecurityGroupCreateFailed": "the cloud failed to create them",
    "Set": "set",
    "SubnetCreateFailed": "the cloud failed to create its subnet",
    "Succeeded": "it has finished",
    "TooManyUnhealthy": "too many are broken at once to be replaced automatically",
    "UnhealthyMachine": "failed because of its machine",
    "UnhealthyNode": "failed because of its node",
    "UpToDate": "up to date",
    "UpToDateUnknown": "nothing has been reported yet",
    "Updating": "being updated",
    "VariableDiscoveryFailed": "an extension failed to list them",
    "VariablesReady": "known",
    "WaitingControlPlaneInitialized": "it waits for the control plane",
    "WaitingForAvailableReplicasSet": "nothing has been reported yet",
    "WaitingForBeforeDeleteHook": "a hook of the management cluster blocks it",
    "WaitingForBootstrapData": "it waits for its boot script",
    "WaitingForBootstrapDeletion": "its boot script is being deleted",
    "WaitingForClusterInfrastructure": "it waits for the network",
    "WaitingForClusterInfrastructureReady": "it waits for the network",
    "WaitingForControlPlaneDeletion": "the control plane is being deleted",
    "WaitingForControlPlaneInitialized": "it waits for the control plane",
    "WaitingForIPAMProvider": "it waits for an address",
    "WaitingForInfrastructureDeletion": "its infrastructure is being deleted",
    "WaitingForMachineDeletion": "its machines are being deleted",
    "WaitingForMinReadySeconds": "ready, and observed for a few seconds",
    "WaitingForMultiUserTarget": "it is booting",
    "WaitingForNodeProvisioned": "it waits for its node",
    "WaitingForPreDrainHook": "a hook blocks its draining",
    "WaitingForPreTerminateHook": "a hook blocks its termination",
    "WaitingForRemediation": "it waits to be replaced",
    "WaitingForReplicasSet": "the number of machines is not known yet",
    "WaitingForStartupTimeout": "it is booting",
    "WaitingForVMProvisioned": "it waits for its machine",
    "WaitingForVolumeDetach": "its volumes are being detached",
    "WaitingForWorkersDeletion": "the workers are being deleted",
}


# reasons whose cause is only in the message, which quotes the cloud or a webhook
ANSWERS = {
    "APIEndpointConfigFailed",
    "DependencyFailed",
    "FloatingIPError",
    "InstanceCreateFailed",
    "InstanceDeleteFailed",
    "InvalidMachineSpec",
    "LoadBalancerMemberError",
    "NetworkCreateFailed",
    "OpenStackError",
    "ReconcileFailed",
    "RouterCreateFailed",
    "SecurityGroupCreateFailed",
    "SubnetCreateFailed",
}
ANSWER_MAX = 300
# how the OpenStack provider quotes an answer: its request, and the whole body
BODY = re.compile(r": Expected HTTP response code \[.*?\] when accessing \[.*?\], but got \d+ instead: ")
FAULTS = ("faultstring", "message")
REQUEST = re.compile(r"\b[A-Z][a-z]+ \"https?://[^\"]*\": ")  # of one that got no answer


@dataclass(frozen=True)
class Finding:
    """One condition of one object, translated. `ok`: nothing to wait for; `line` is the evidence, as the site has it."""

    step: str
    sentence: str
    ok: bool
    line: str
    reason: str


def read(kind: str, name: str, condition: Object) -> Finding:
    type_, status = str(condition.get("type")), str(condition.get("status"))
    reason, message = (
        str(condition.get("reason") or ""),
        " ".join(str(condition.get("message") or "").split()),
    )
    step = BY_TYPE.get((kind, type_)) or _step_of(kind)
    if type_ == "Deleting":
        step = GONE
    subject = SUBJECTS.get(type_, "" if type_ in {"Ready", *ADVERSE} else words(type_))
    text = REASONS.get(reason) or words(reason) or f"{words(type_)} is {status.lower()}"
    whose = f"{kind} {name}"
    sentence = f"{whose}: {subject}: {text}" if subject else f"{whose}: {text}"
    if quoted := _answer(reason, message):
        sentence += f": {quoted}"
    line = f"{kind}/{name} {type_} {status} {reason}" + (f": {message}" if message else "")
    return Finding(step, sentence, status == ("False" if type_ in ADVERSE else "True"), line[:500], reason)


def answer(message: str) -> str:
    """The cloud's own sentence, without the request that it answered."""
    head, *bodies = BODY.split(REQUEST.sub("", " ".join(message.split())), maxsplit=1)
    return f"{head}: {_fault(bodies[0])}"[:ANSWER_MAX] if bodies else head[:ANSWER_MAX]


def _answer(reason: str, message: str) -> str:
    failed = reason not in REASONS and reason.endswith(("Failed", "Error"))
    return answer(message) if reason in ANSWERS or failed else ""


def _fault(body: str) -> str:
    """The fault's text; services nest it differently."""
    try:
        found, _ = json.JSONDecoder().raw_decode(body)
    except ValueError:
        return body
    while isinstance(found, dict):
        text = next((found[key] for key in FAULTS if isinstance(found.get(key), str)), None)
        found = text or next((one for one in found.values() if isinstance(one, dict)), body)
    return str(found)


def words(name: str) -> str:
    """`WaitingForDPUFirmware` as a person would write it."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+", name)
    return " ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts)


def troubles(objects: Iterable[Object]) -> list[Finding]:
    """The conditions to wait for, in the order of the objects; of an object being deleted only its deletion."""
    found = []
    for one in objects:
        conditions = sorted(one.get("status", {}).get("conditions") or [], key=_is_summary)
        findings = [read(one["kind"], one["metadata"]["name"], each) for each in conditions]
        going = [each for each in findings if each.step == GONE and not each.ok]
        found += going or [each for each in findings if not each.ok]
    return found


def _is_summary(condition: Object) -> bool:
    return condition.get("type") in {"Ready", "Available"}


def status_of(one: Object, type_: str) -> str:
    """ "True", "False", "Unknown"; "" if there is no such condition."""
    return str(condition_of(one, type_).get("status", ""))


def condition_of(one: Object, type_: str) -> Object:
    found = one.get("status", {}).get("conditions") or []
    return next((each for each in found if each.get("type") == type_), {})


def _step_of(kind: str) -> str:
    """Kinds of infrastructure providers count as a machine's, or else the network's."""
    if kind in BY_KIND:
        return BY_KIND[kind]
    return MACHINE if "Machine" in kind or kind.endswith("Server") else NETWORK
