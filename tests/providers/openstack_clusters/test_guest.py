"""What machines find as their user data: valid, complete, and with no more secrets than their role needs."""

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gpuaas.core.errors import Invalid, Permanent
from gpuaas.providers.base import ClusterKind, FlavorAmount, boot_claim
from gpuaas.providers.openstack.clusters import slurm
from gpuaas.providers.openstack.clusters.driver import OpenStackClusterDriver
from gpuaas.providers.openstack.clusters.guest import MOST, user_data
from gpuaas.providers.openstack.clusters.keys import Keys
from tests.providers.openstack_clusters.stage import SEED, document, files, guest, installed, spec

K, S = ClusterKind.KUBERNETES, ClusterKind.SLURM
CONFIG = "/etc/rancher/k3s/config.yaml"
TLS = "/var/lib/rancher/k3s/server/tls"


@pytest.mark.parametrize("kind", [K, S])
@pytest.mark.parametrize("of_pool", [False, True])
def test_every_script_is_one_that_bash_reads(kind: ClusterKind, of_pool: bool, tmp_path: Path) -> None:
    made = spec(kind)
    machine = guest(made, made.pools[0] if of_pool else None)
    etc = installed(machine, tmp_path)
    scripts = [etc / "stages.sh", *(tmp_path / "usr/local/sbin").iterdir()]
    for name in ("gpuaas-logins", "gpuaas-usage", "gpuaas-jobs"):
        program = tmp_path / "usr/local/sbin" / name
        assert program.exists() == (kind is S and not of_pool)
        if program.exists():
            scripts.remove(program)
            compile(program.read_text(), name, "exec")
    assert len(scripts) == (6 if kind is S or not of_pool else 5)
    for script in scripts:
        assert subprocess.run(["bash", "-n", script], check=False).returncode == 0, script
    stages = "declare -F stage_packages stage_gpu_driver stage_join stage_ready"
    loaded = subprocess.run(
        ["bash", "-euc", f". {etc}/node.env; . {etc}/stages.sh; {stages}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(loaded.stdout.split()) == 4


@pytest.mark.parametrize("kind", [K, S])
def test_values_survive_the_shell(kind: ClusterKind, tmp_path: Path) -> None:
    made = spec(kind, settings={"image": "ubuntu", "packages": ["nvme-cli", "htop=3.2*"]})
    etc = installed(guest(made, heads=3), tmp_path)
    read = subprocess.run(
        [
            "bash",
            "-euc",
            f'. {etc}/node.env; echo "$GPUAAS_PACKAGES|$GPUAAS_HEADS|$GPUAAS_RELEASE|$GPUAAS_GPUS"',
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout.strip() == f"nvme-cli htop=3.2*|10.0.0.11 10.0.0.12 10.0.0.13|{made.release}|0"


def test_the_token_in_it_is_for_this_machine_alone() -> None:
    made = spec()
    machine = guest(made, made.pools[0])
    claim = boot_claim(
        files(machine)["/etc/gpuaas/report.header"].removeprefix("Authorization: Bearer ").strip()
    )
    assert claim is not None
    assert (claim.cluster, claim.node, claim.boot) == (made.id, machine.name, machine.boot)
    assert claim.is_sealed(SEED)
    assert not claim.is_sealed("another")
    assert not replace(claim, node="c-other").is_sealed(SEED)


def test_the_head_has_the_authorities_and_a_worker_only_the_agents_secret() -> None:
    made = spec(addons=("gpu-operator",))
    head, worker = files(guest(made)), files(guest(made, made.pools[1]))
    config, joined = yaml.safe_load(head[CONFIG]), yaml.safe_load(worker[CONFIG])
    assert config["tls-san"] == ["203.0.113.7", "10.0.0.11"]
    assert (joined["server"], joined["token"]) == ("https://10.0.0.11:6443", config["agent-token"])
    assert config["token"] != config["agent-token"]
    assert config["token"] not in str(worker), "with it a worker could become a server"
    assert not [path for path in worker if path.startswith("/var/lib/rancher")]
    for name in ("client-ca", "server-ca"):
        certificate = x509.load_pem_x509_certificate(head[f"{TLS}/{name}.crt"].encode())
        key = load_pem_private_key(head[f"{TLS}/{name}.key"].encode(), None)
        assert certificate.public_key() == key.public_key()
        certificate.verify_directly_issued_by(certificate)
    assert (
        yaml.safe_load(head["/var/lib/rancher/k3s/server/manifests/gpuaas-gpu-operator.yaml"])["kind"]
        == "HelmChart"
    )


def test_what_is_worked_out_of_the_seed_is_always_the_same_and_of_another_seed_different() -> None:
    boots = spec().boots
    one, again, other = Keys(boots), Keys(boots), Keys(replace(boots, seed="another"))
    for purpose in ("k3s-client-ca", "k3s-server-ca"):
        assert one.authority(purpose) == again.authority(purpose)
        assert one.authority(purpose) != other.authority(purpose)
    assert one.host_key[1] == again.host_key[1]
    assert one.ssh_authority != other.ssh_authority
    assert len({one.word("a"), one.word("b"), one.munge_key, other.munge_key}) == 4


def test_secrets_are_readable_by_root_alone() -> None:
    for kind in (K, S):
        made = spec(kind)
        for pool in (None, made.pools[0]):
            machine = guest(made, pool)
            words = [*machine.secrets.values(), machine.token]
            for row in document(machine)["write_files"]:
                if any(word in row["content"] for word in words):
                    assert row["permissions"] == "0600", row["path"]


def test_slurms_files_say_what_the_flavors_have() -> None:
    made = spec(S)
    head, worker = files(guest(made)), files(guest(made, made.pools[1]))
    conf = dict(
        line.split("=", 1)
        for line in head["/etc/gpuaas/slurm.conf"].splitlines()
        if not line.startswith("PartitionName")
    )
    assert conf["SlurmctldHost"] == f"{made.external_name}-control-1(10.0.0.11)"
    assert "enable_configless" in conf["SlurmctldParameters"]
    partitions = [
        line for line in head["/etc/gpuaas/slurm.conf"].splitlines() if line.startswith("PartitionName")
    ]
    assert [line.split()[:3] for line in partitions] == [
        ["PartitionName=small", "Nodes=small", "Default=YES"],
        ["PartitionName=big", "Nodes=big", "Default=NO"],
    ]
    assert [line.split()[-2:] for line in partitions] == [
        ["DefMemPerCPU=7372", "DefMemPerGPU=58982"],
        ["DefMemPerCPU=7372", "DefMemPerGPU=58982"],
    ], "a job that does not say takes its share, not all of a machine"
    assert conf["AccountingStorageTRES"] == "gres/gpu,gres/gpu:a100,gres/gpu:h100"
    assert conf["AccountingStorageEnforce"] == "associations,limits,safe", "a job is somebody's"
    assert conf["AccountingStorageType"] == "accounting_storage/slurmdbd"
    assert conf["AccountingStorageHost"] == "10.0.0.11", "also of those who ask on a worker"
    assert head["/etc/gpuaas/gres.conf"].splitlines() == [
        "AutoDetect=off",
        f"NodeName={made.external_name}-small-[1-500] Name=gpu Type=a100 File=/dev/nvidia0",
        f"NodeName={made.external_name}-big-[1-500] Name=gpu Type=h100 File=/dev/nvidia[0-7]",
    ]
    assert "Feature=big Weight=1 Gres=gpu:h100:8" in worker["/etc/gpuaas/slurmd.default"]
    assert worker["/etc/gpuaas/munge.key"] == head["/etc/gpuaas/munge.key"]
    assert "/etc/gpuaas/slurm.conf" not in worker, "it fetches them from the head"
    unit = worker["/etc/systemd/system/slurmd.service.d/gpuaas.conf"]
    assert "ConditionPathExists=\n" in unit, "Debian's unit asks for a slurm.conf"
    assert "Restart=on-failure\n" in unit, "it may be up before the head"
    assert "/etc/gpuaas/slurmdbd.conf" in head
    assert "/etc/gpuaas/slurmdbd.conf" not in worker


def test_the_options_of_slurmd_are_one_argument_each(tmp_path: Path) -> None:
    """As systemd splits what the file says."""
    made = spec(S)
    path = tmp_path / "slurmd"
    path.write_text(files(guest(made, made.pools[0]))["/etc/gpuaas/slurmd.default"])
    read = subprocess.run(
        ["bash", "-euc", f'. {path}; eval "set -- $SLURMD_OPTIONS"; printf "%s\\n" "$@"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout.splitlines() == [
        "--conf-server",
        "10.0.0.11",
        "-Z",
        "--conf",
        "Feature=small Weight=1 Gres=gpu:a100:1",
    ]


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ({"pci_passthrough:alias": "A100-SXM"}, "a100_sxm"),
        ({"resources:VGPU": "1"}, "h100_80gb_hbm3"),
        ({}, "h100_80gb_hbm3"),
    ],
)
def test_the_type_of_a_gpu_is_a_word_that_slurm_takes(selector: dict[str, str], name: str) -> None:
    flavor = FlavorAmount("x", 1, 1, 1, 1, 1, "CUSTOM_PCI_10DE_2330", selector)
    assert slurm.gpu_type(flavor) == name


def test_user_data_that_nova_would_not_take_is_refused() -> None:
    noise = random.Random(4711).randbytes(40_000).hex()
    made = spec(addons=("own",), settings={"image": "ubuntu", "manifests": {"own": f"# {noise}"}})
    with pytest.raises(Permanent, match="too long"):
        user_data(guest(made))


def test_its_own_files_leave_a_third_of_the_room() -> None:
    """The head of a Slurm cluster with a partition elsewhere, which has the most of them, and a Kubernetes cluster's."""
    slurms = spec(S)
    for made in (replace(slurms, pools=slurms.pools[:1], elsewhere=slurms.pools[1:], spans=True), spec(K)):
        assert len(user_data(guest(made))) < MOST * 2 / 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "image"),
        ({"image": 7}, "image"),
        ({"image": "u", "boot_minutes": 0}, "boot_minutes"),
        ({"image": "u", "boot_minutes": True}, "boot_minutes"),
        ({"image": "u", "packages": ["a; rm -rf /"]}, "packages"),
        ({"image": "u", "packages": "htop"}, "packages"),
        ({"image": "u", "k3s_url": "file:///etc"}, "k3s_url"),
        ({"image": "u", "k3s_url": "https://x/$(id)"}, "k3s_url"),
        ({"image": "u", "manifests": {"a": "{"}}, "manifest"),
        ({"image": "u", "manifest": {}}, "manifest"),
        ({"image": "u", "jobs_of_removed": "cancel"}, "jobs_of_removed"),
    ],
)
def test_settings_are_judged_before_they_are_saved(settings: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid) as caught:
        OpenStackClusterDriver.settings_check(K, settings)
    assert words in caught.value.fields["settings"][0]


def test_good_settings_are_taken() -> None:
    OpenStackClusterDriver.settings_check(
        K,
        {
            "image": "u",
            "boot_minutes": 60,
            "packages": ["htop"],
            "k3s_url": "http://mirror:8080/k3s",
            "manifests": {"a": "b: c"},
        },
    )
    OpenStackClusterDriver.settings_check(S, {"image": "u"})
    OpenStackClusterDriver.settings_check(S, {"image": "u", "jobs_of_removed": "finish"})
    with pytest.raises(Invalid, match="jobs_of_removed must be cancel or finish"):
        OpenStackClusterDriver.settings_check(S, {"image": "u", "jobs_of_removed": "keep"})


@pytest.mark.parametrize(("settings", "policy"), [({}, "cancel"), ({"jobs_of_removed": "finish"}, "finish")])
def test_the_head_knows_what_becomes_of_jobs_of_members_who_are_removed(
    settings: dict[str, str], policy: str
) -> None:
    machine = guest(spec(S, settings={"image": "u", **settings}))
    assert f"GPUAAS_JOBS_OF_REMOVED={policy}\n" in files(machine)["/etc/gpuaas/node.env"]
    assert document(machine)["users"] == [], "there is no account but the system's and the members'"


def test_no_machine_takes_a_key_that_somebody_put_into_a_home() -> None:
    """Homes are on all machines: it would lead past Slurm to a worker's GPUs, and outlive every certificate."""
    made = spec(S)
    for machine in (guest(made), guest(made, made.pools[0])):
        assert "AuthorizedKeysFile none\n" in files(machine)["/etc/ssh/sshd_config.d/50-gpuaas.conf"]
