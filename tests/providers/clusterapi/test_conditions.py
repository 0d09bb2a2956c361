"""What is waited for is said: each condition and reason of upstream has a step and a sentence of ours."""

import pytest

from gpuaas.providers.clusterapi import conditions
from tests.providers.clusterapi.upstream import rows

ROWS = rows()


def condition(type_: str, reason: str, status: str = "False", message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def test_the_table_of_upstream_is_whole() -> None:
    assert len(ROWS) > 300
    assert len({kind for kind, _, _ in ROWS}) >= 12


@pytest.mark.parametrize(("kind", "type_"), sorted({(kind, type_) for kind, type_, _ in ROWS}))
def test_each_condition_and_reason_has_a_step_and_a_sentence(kind: str, type_: str) -> None:
    for reason in [one for each, other, one in ROWS if (each, other) == (kind, type_)]:
        said = conditions.read(kind, "c-1", condition(type_, reason))
        assert said.step in conditions.STEPS
        assert reason in conditions.REASONS, f"{reason} has no words of ours"
        assert conditions.REASONS[reason] in said.sentence
        if type_ not in {"Ready", *conditions.ADVERSE}:
            assert type_ in conditions.SUBJECTS, f"{type_} has no words of ours"


@pytest.mark.parametrize(
    ("kind", "type_", "step"),
    [
        ("Cluster", "TopologyReconciled", conditions.ORDER),
        ("Cluster", "InfrastructureReady", conditions.NETWORK),
        ("Cluster", "ControlPlaneInitialized", conditions.CONTROL),
        ("KubeadmControlPlane", "EtcdClusterHealthy", conditions.CONTROL),
        ("Cluster", "RemoteConnectionProbe", conditions.API),
        ("Cluster", "WorkersAvailable", conditions.POOL),
        ("MachineDeployment", "Available", conditions.POOL),
        ("Machine", "BootstrapConfigReady", conditions.MACHINE),
        ("OpenStackServer", "InstanceReady", conditions.MACHINE),
        ("AWSMachine", "InstanceReady", conditions.MACHINE),
        ("AzureCluster", "NetworkInfrastructureReady", conditions.NETWORK),
        ("Cluster", "Available", conditions.CHECKS),
        ("Cluster", "Deleting", conditions.GONE),
        ("Machine", "Deleting", conditions.GONE),
    ],
)
def test_conditions_belong_to_the_step_that_waits_for_them(kind: str, type_: str, step: str) -> None:
    assert conditions.read(kind, "c-1", condition(type_, "NotReady")).step == step


def test_what_nobody_knows_yet_still_reads() -> None:
    said = conditions.read("DPUMachine", "w-1", condition("FirmwareFlashed", "WaitingForDPUFirmware"))
    assert said.sentence == "DPUMachine w-1: firmware flashed: waiting for DPU firmware"
    silent = conditions.read("Machine", "w-1", {"type": "Odd", "status": "Unknown"})
    assert silent.sentence == "Machine w-1: odd: odd is unknown"


def test_evidence_is_the_sites_own_line() -> None:
    given = condition("InstanceReady", "InstanceCreateFailed", message="Quota exceeded for\n  cores")
    said = conditions.read("OpenStackServer", "w-1", given)
    assert (
        said.line == "OpenStackServer/w-1 InstanceReady False InstanceCreateFailed: Quota exceeded for cores"
    )
    assert "the cloud refused" in said.sentence


def test_some_conditions_are_well_when_false() -> None:
    assert conditions.read("Cluster", "c", condition("RollingOut", "NotRollingOut")).ok
    assert not conditions.read("Cluster", "c", condition("RollingOut", "RollingOut", "True")).ok
    assert not conditions.read("Cluster", "c", condition("Available", "NotAvailable")).ok
    assert not conditions.read("Cluster", "c", condition("Available", "AvailableUnknown", "Unknown")).ok


def test_of_what_is_going_only_that_is_said() -> None:
    machine = {
        "kind": "Machine",
        "metadata": {"name": "w-1"},
        "status": {
            "conditions": [
                condition("Ready", "NotReady"),
                condition("Deleting", "DrainingNode", "True"),
                condition("NodeHealthy", "NodeNotHealthy"),
            ]
        },
    }
    assert [one.reason for one in conditions.troubles([machine])] == ["DrainingNode"]


QUOTA = (
    "failed to reconcile load balancer: "
    "Expected HTTP response code [201] when accessing [POST http://octavia/v2/lbaas], but got 403 instead: "
)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            QUOTA + '{"faultcode": "Client", "faultstring": "Quota has been met", "debuginfo": null}',
            "failed to reconcile load balancer: Quota has been met",
        ),
        (
            QUOTA + '{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded", "detail": ""}}',
            "failed to reconcile load balancer: Quota exceeded",
        ),
        (QUOTA + '{"forbidden": {"code": 403, "message": 7}}', 'failed to reconcile load balancer: {"forb'),
        (QUOTA + "<html>", "failed to reconcile load balancer: <html>"),
        ("No suitable endpoint  could be\nfound", "No suitable endpoint could be found"),
        ('failed: Get "http://octavia/v2": dial tcp: connection refused', "failed: dial tcp: connection"),
    ],
)
def test_a_clouds_answer_is_told_without_the_request(message: str, told: str) -> None:
    assert conditions.answer(message).startswith(told)
    assert "http://octavia" not in conditions.answer(message)
    said = conditions.read("OpenStackCluster", "c-1", condition("Ready", "OpenStackError", message=message))
    assert said.step == conditions.NETWORK
    assert said.sentence.startswith(f"OpenStackCluster c-1: the cloud answered with an error: {told}")
    assert "octavia" in said.line or QUOTA not in message


def test_what_is_no_answer_of_a_cloud_stays_out_of_the_sentence() -> None:
    said = conditions.read("Cluster", "c-1", condition("RemoteConnectionProbe", "ProbeFailed", message="x"))
    assert said.sentence.endswith("it does not answer yet")
    later = conditions.read("AWSCluster", "c-1", condition("VpcReady", "VpcLimitFailed", message="5 VPCs"))
    assert later.sentence.endswith("failed: 5 VPCs")
