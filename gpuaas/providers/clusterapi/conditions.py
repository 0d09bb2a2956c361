"""What Cluster API's conditions mean to whoever waits for a cluster: the step that they belong to, and a sentence.

A pure table. A type or reason that a newer controller brings still gives a readable sentence, so that nobody waits without a word.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuaas.providers.kubernetes.client import Object

# steps; MACHINE is a pool's or the control plane's, by whose machine it is
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

# what is well when these are False
ADVERSE = {"Deleting", "Paused", "Remediating", "RollingOut", "ScalingDown", "ScalingUp", "Updating"}

# by kind: the step of its conditions, and of some by their type
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
    "APIServerIngressReadyCondition": "its way to the address of the API",
    "APIServerPodHealthy": "the API server's pod",
    "APIServerProvisioned": "the API server",
    "Available": "",
    "BootstrapConfigReady": "its boot script",
    "BootstrapExecSucceeded": "its boot script",
    "CertificatesAvailable": "the certificates",
    "ContainerProvisioned": "the machine",
    "ControlPlaneAvailable": "the control plane",
    "ControlPlaneComponentsHealthy": "the control plane's programs",
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
    "InfrastructureReady": "what the provider makes for it",
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

# as they follow "… : "
REASONS = {
    "APIEndpointConfigFailed": "there is no address for the API",
    "Available": "there and at work",
    "AvailableUnknown": "nothing has been reported yet",
    "CannotBeRemediated": "broken, and it cannot be replaced by itself",
    "ClusterClassNotReconciled": "the class is not ready to be ordered from",
    "ClusterCreating": "being made",
    "ClusterUpgrading": "being brought to another release",
    "ConnectionDown": "nothing is known, since the cluster's API does not answer",
    "ControlPlaneUpgradePending": "the control plane waits for its turn to be upgraded",
    "DataSecretProvided": "given by hand",
    "Deleting": "being taken away",
    "DeletingNode": "its node is being taken out of the cluster",
    "DeletionCompleted": "taken away",
    "DependencyFailed": "what it stands on has failed",
    "DoesNotExist": "not there",
    "DrainingNode": "the work on it is being moved away",
    "Failed": "it has failed",
    "FloatingIPError": "the cloud has not given or taken back a floating IP",
    "HasRemediateAnnotation": "somebody has asked for it to be replaced",
    "HealthCheckSucceeded": "passed",
    "HealthUnknown": "nothing is known of its health",
    "Healthy": "in good health",
    "InPlaceUpdateFailed": "changing it in place has failed",
    "InPlaceUpdating": "being changed in place",
    "Initialized": "initialized",
    "InspectionFailed": "it cannot be looked at yet",
    "InstanceCreateFailed": "the cloud has refused to make it",
    "InstanceDeleteFailed": "the cloud has not deleted it",
    "InstanceDeleted": "it has gone from the cloud",
    "InstanceNotFound": "it has gone from the cloud",
    "InstanceNotReady": "the cloud is making it",
    "InstanceStateError": "the cloud reports an error of it",
    "InternalError": "the controller has met an error and tries again",
    "InvalidConditionReported": "its provider reports something unreadable",
    "InvalidMachineSpec": "what is ordered cannot be made",
    "LifecycleHookBlocking": "a hook of the management cluster holds it up",
    "LoadBalancerMemberError": "the load balancer has not taken it in or let it go",
    "MachineDeleting": "the broken machine is being taken away",
    "MachineDeploymentsCreatePending": "pools wait for the upgrade before they are made",
    "MachineDeploymentsUpgradeDeferred": "pools are held back at their release, as asked",
    "MachineDeploymentsUpgradePending": "pools wait for their turn to be upgraded",
    "MachinePoolsCreatePending": "pools wait for the upgrade before they are made",
    "MachinePoolsUpgradeDeferred": "pools are held back at their release, as asked",
    "MachinePoolsUpgradePending": "pools wait for their turn to be upgraded",
    "NetworkCreateFailed": "the cloud has not made it",
    "NoReplicas": "there are none",
    "NoWorkers": "there are none",
    "NodeDeleted": "it has gone from the cluster",
    "NodeDoesNotExist": "it has not joined the cluster",
    "NodeHealthy": "in good health",
    "NodeHealthyUnknown": "nothing is known of its health",
    "NodeNotHealthy": "not in good health",
    "NodeNotReady": "not ready",
    "NodeReady": "ready",
    "NodeReadyUnknown": "it is not known whether it is ready",
    "NodeStartupTimeout": "it has not joined the cluster in time",
    "NotAvailable": "not there yet",
    "NotDeleting": "not being taken away",
    "NotHealthy": "not in good health",
    "NotInitialized": "not initialized yet",
    "NotPaused": "not paused",
    "NotProvisioned": "not made yet",
    "NotReady": "not ready yet",
    "NotRemediating": "nothing is being replaced",
    "NotRollingOut": "nothing is being exchanged",
    "NotScalingDown": "nothing is being removed",
    "NotScalingUp": "nothing is being added",
    "NotSet": "not set yet",
    "NotSucceeded": "it has not run to its end",
    "NotUpToDate": "not all as wanted yet",
    "NotUpdating": "nothing is being changed in place",
    "ObjectDeleted": "it has been deleted",
    "ObjectDoesNotExist": "not there yet",
    "OpenStackError": "the cloud has answered with an error",
    "Paused": "somebody has paused it at the management cluster",
    "ProbeFailed": "it does not answer yet",
    "ProbeSucceeded": "it answers",
    "Provisioned": "made",
    "Provisioning": "starting",
    "Ready": "ready",
    "ReadyUnknown": "nothing has been reported yet",
    "ReconcileFailed": "the management cluster cannot carry it out",
    "ReconcileSucceeded": "carried out",
    "RefVersionsNotUpToDate": "of a version that is no longer served",
    "RefVersionsUpToDate": "of versions that are served",
    "Remediating": "broken machines are being replaced",
    "RemediationAllowed": "broken machines may be replaced",
    "RemediationDeferred": "it is broken and waits for its turn to be replaced",
    "RemediationRequestCreationFailed": "asking for its replacement has failed",
    "RemediationTemplateNotFound": "what would replace it is not there",
    "RollingOut": "machines are being exchanged, one after the other",
    "RollingOutUnknown": "nothing has been reported yet",
    "RouterCreateFailed": "the cloud has not made it",
    "Running": "running",
    "ScalingDown": "machines are being removed",
    "ScalingDownUnknown": "nothing has been reported yet",
    "ScalingUp": "machines are being added",
    "ScalingUpUnknown": "nothing has been reported yet",
    "SecurityGroupCreateFailed": "the cloud has not made them",
    "Set": "set",
    "SubnetCreateFailed": "the cloud has not made its addresses",
    "Succeeded": "it has run to its end",
    "TooManyUnhealthy": "too many are broken at once to replace them by themselves",
    "UnhealthyMachine": "failed, for its machine",
    "UnhealthyNode": "failed, for its node",
    "UpToDate": "as wanted",
    "UpToDateUnknown": "nothing has been reported yet",
    "Updating": "being changed",
    "VariableDiscoveryFailed": "an extension did not tell what there is",
    "VariablesReady": "known",
    "WaitingControlPlaneInitialized": "it waits for the control plane",
    "WaitingForAvailableReplicasSet": "nothing has been reported yet",
    "WaitingForBeforeDeleteHook": "a hook of the management cluster holds it up",
    "WaitingForBootstrapData": "it waits for its boot script",
    "WaitingForBootstrapDeletion": "its boot script is being taken away",
    "WaitingForClusterInfrastructure": "it waits for the network",
    "WaitingForClusterInfrastructureReady": "it waits for the network",
    "WaitingForControlPlaneDeletion": "the control plane is being taken away",
    "WaitingForControlPlaneInitialized": "it waits for the control plane",
    "WaitingForIPAMProvider": "it waits for an address",
    "WaitingForInfrastructureDeletion": "what the provider made is being taken away",
    "WaitingForMachineDeletion": "its machines are being taken away",
    "WaitingForMinReadySeconds": "ready, and watched for some seconds",
    "WaitingForMultiUserTarget": "it is booting",
    "WaitingForNodeProvisioned": "it waits for its node",
    "WaitingForPreDrainHook": "a hook holds up moving its work away",
    "WaitingForPreTerminateHook": "a hook holds up its end",
    "WaitingForRemediation": "it waits to be replaced",
    "WaitingForReplicasSet": "the number of machines is not known yet",
    "WaitingForStartupTimeout": "it is booting",
    "WaitingForVMProvisioned": "it waits for its machine",
    "WaitingForVolumeDetach": "its volumes are being detached",
    "WaitingForWorkersDeletion": "the workers are being taken away",
}


# behind these stands an answer of the cloud or of a webhook: what is wrong is only in its message
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
# as the OpenStack provider passes an answer on: what it has asked for, and the whole body
BODY = re.compile(r": Expected HTTP response code \[.*?\] when accessing \[.*?\], but got \d+ instead: ")
FAULTS = ("faultstring", "message")
REQUEST = re.compile(r"\b[A-Z][a-z]+ \"https?://[^\"]*\": ")  # of one that got no answer


@dataclass(frozen=True)
class Said:
    """One condition of one object. `ok`: nothing has to be waited for; `line` is the evidence, as the site has it."""

    step: str
    sentence: str
    ok: bool
    line: str
    reason: str


def read(kind: str, name: str, condition: Object) -> Said:
    type_, status = str(condition.get("type")), str(condition.get("status"))
    reason, message = (
        str(condition.get("reason") or ""),
        " ".join(str(condition.get("message") or "").split()),
    )
    step = BY_TYPE.get((kind, type_)) or _step_of(kind)
    if type_ == "Deleting":
        step = GONE
    subject = SUBJECTS.get(type_, "" if type_ in {"Ready", *ADVERSE} else words(type_))
    said = REASONS.get(reason) or words(reason) or f"{words(type_)} is {status.lower()}"
    whose = f"{kind} {name}"
    sentence = f"{whose}: {subject}: {said}" if subject else f"{whose}: {said}"
    if told := _answer(reason, message):
        sentence += f": {told}"
    line = f"{kind}/{name} {type_} {status} {reason}" + (f": {message}" if message else "")
    return Said(step, sentence, status == ("False" if type_ in ADVERSE else "True"), line[:500], reason)


def answer(message: str) -> str:
    """A cloud's own sentence, without the request that it was an answer to."""
    head, *bodies = BODY.split(REQUEST.sub("", " ".join(message.split())), maxsplit=1)
    return f"{head}: {_fault(bodies[0])}"[:ANSWER_MAX] if bodies else head[:ANSWER_MAX]


def _answer(reason: str, message: str) -> str:
    failed = reason not in REASONS and reason.endswith(("Failed", "Error"))
    return answer(message) if reason in ANSWERS or failed else ""


def _fault(body: str) -> str:
    """Services differ in how deep they put it."""
    try:
        found, _ = json.JSONDecoder().raw_decode(body)
    except ValueError:
        return body
    while isinstance(found, dict):
        told = next((found[key] for key in FAULTS if isinstance(found.get(key), str)), None)
        found = told or next((one for one in found.values() if isinstance(one, dict)), body)
    return str(found)


def words(name: str) -> str:
    """`WaitingForDPUFirmware` as a person would write it."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+", name)
    return " ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts)


def troubles(objects: Iterable[Object]) -> list[Said]:
    """Of all conditions those that have to be waited for, in the order of the objects; of one that is going only that."""
    found = []
    for one in objects:
        told = sorted(one.get("status", {}).get("conditions") or [], key=_is_summary)
        said = [read(one["kind"], one["metadata"]["name"], condition) for condition in told]
        going = [each for each in said if each.step == GONE and not each.ok]
        found += going or [each for each in said if not each.ok]
    return found


def _is_summary(condition: Object) -> bool:
    return condition.get("type") in {"Ready", "Available"}


def status_of(one: Object, type_: str) -> str:
    """ "True", "False", "Unknown"; "" where nothing is said."""
    return str(condition_of(one, type_).get("status", ""))


def condition_of(one: Object, type_: str) -> Object:
    found = one.get("status", {}).get("conditions") or []
    return next((each for each in found if each.get("type") == type_), {})


def _step_of(kind: str) -> str:
    """Of a provider's own kinds: a machine's, or the network's."""
    if kind in BY_KIND:
        return BY_KIND[kind]
    return MACHINE if "Machine" in kind or kind.endswith("Server") else NETWORK
