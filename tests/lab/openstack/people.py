"""Two members of a project on the machines of its Slurm cluster, each as themselves, and one of them leaves."""

import re
import subprocess
from datetime import timedelta
from typing import Protocol

from django.db.models import Sum

from gpuaas.clusters.models import Cluster, ClusterGrant, ClusterUse
from gpuaas.clusters.services import cluster_credential
from gpuaas.providers.base import Access
from tenants.actors import Actor
from tenants.models import User
from tenants.services.members import project_member_remove
from tests.lab.fixtures import until

OUT = 180  # seconds: a minute is promised, of a machine that is not as busy
SEEN = "srun --nodes=2 --gres=gpu:1 sh -c 'id -un; id -u; pwd; echo $SLURM_GPUS_ON_NODE; touch /home/shared/$(id -un)'"


class Head(Protocol):
    def tries(self, *command: str) -> subprocess.CompletedProcess[str]: ...
    def says(self, *command: str) -> str: ...
    def lines(self, *command: str) -> list[str]: ...


OWN_KEY = "mkdir -p .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/own; cp .ssh/own.pub .ssh/authorized_keys"
ASKS_NOTHING = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no")


def enters(head: Head, access: Access, command: str) -> subprocess.CompletedProcess[str]:
    """By the script that a member downloads, run on the head itself."""
    found = re.search(r"@([0-9.]+) ", access.document)
    assert found is not None
    return head.tries("sh", "-c", access.document.replace(found[1], "127.0.0.1"), "access", command)


def members_work_as_themselves(head: Head, row: Cluster, bob: Actor, carol: Actor) -> None:
    assert row.logins == ["bob", "carol"], "ready is when members can come in"
    for number, actor in enumerate((bob, carol)):
        access = cluster_credential(actor=actor, cluster=row, lifetime=timedelta(hours=1))
        done = enters(head, access, SEEN)
        assert done.returncode == 0, done.stdout + done.stderr
        home = f"/home/{actor.name}"
        of_each = [actor.name, str(20_001 + number), home, "1"]
        assert sorted(done.stdout.split()) == sorted(of_each * 2), "two machines, each with a GPU of theirs"
    account = [
        "sacct",
        "--allusers",
        "--allocations",
        "--noheader",
        "--parsable2",
        "--format=account,user,alloctres",
    ]

    def seen() -> set[tuple[str, str, bool]]:
        rows = [line.split("|") for line in head.lines(*account)]
        return {(name, user, "gres/gpu=2" in tres) for name, user, tres in rows}

    wanted = {(row.project.slug, "bob", True), (row.project.slug, "carol", True)}
    until(lambda: wanted <= seen(), "sacct names both, with two GPUs each")
    limit = ("sacctmgr", "--noheader", "--parsable2", "list", "associations", "format=account,user,grptres")
    assert f"{row.project.slug}||gres/gpu=4" in head.lines(*limit), "the project may use what the cluster has"


def who_leaves_is_out(head: Head, row: Cluster, owner: Actor, carol: Actor, user: User) -> None:
    """Sessions, jobs, the credential that is still valid, and new jobs; what she made stays."""
    access = cluster_credential(actor=carol, cluster=row, lifetime=timedelta(hours=1))
    stays = "touch mine; nohup sleep 4711 > /dev/null 2>&1 & sbatch --gpus=1 --wrap='sleep infinity'"
    assert enters(head, access, f"{OWN_KEY}; {stays}").returncode == 0
    by_key = ("ssh", "-i", "/home/carol/.ssh/own", *ASKS_NOTHING, "carol@127.0.0.1", "true")
    assert "Permission denied" in head.tries(*by_key).stderr, "only what the portal issues opens a machine"
    uid = head.says("id", "--user", "carol").strip()
    until(lambda: "carol|R" in head.lines("squeue", "--noheader", "--format=%u|%t"), "her job runs")
    assert head.tries("pgrep", "--uid", uid).returncode == 0

    project_member_remove(actor=owner, project=row.project, user=user)
    until(lambda: Cluster.objects.get(pk=row.pk).logins == ["bob"], "the head has shut her out", seconds=OUT)
    done = enters(head, access, "true")
    assert done.returncode == 255, done.stdout + done.stderr
    assert "Permission denied" in done.stderr
    assert head.tries("pgrep", "--uid", uid).returncode == 1, "her sessions have ended"
    until(lambda: "carol" not in head.says("squeue", "--noheader", "--format=%u"), "her job has ended")
    submits = [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "sbatch",
        "--chdir=/tmp",
        "--wrap=true",
    ]
    assert head.tries(*submits).returncode != 0
    assert "mine" in head.lines("ls", "/home/carol")
    grants = ClusterGrant.objects.filter(cluster=row, user=user)
    assert grants.exists()
    assert not grants.filter(revoked_at=None).exists()


def the_portal_agrees_with_sacct(head: Head, row: Cluster) -> None:
    """While no job runs, on what each person's jobs used, to the second. By itself sacct begins at midnight."""
    told = ("--starttime=2000-01-01", "--format=user,elapsedraw,alloctres")
    lines = head.lines(
        "sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--parsable2", *told
    )
    wanted: dict[str, int] = {}
    for user, seconds, resources in (line.split("|") for line in lines):
        gpus = dict(part.partition("=")[::2] for part in resources.split(",")).get("gres/gpu", "0")
        wanted[user] = wanted.get(user, 0) + int(seconds) * int(gpus)
    assert wanted["carol"] > 0, lines
    wanted = {user: seconds for user, seconds in wanted.items() if seconds}

    def seen() -> dict[str, int]:
        rows = ClusterUse.objects.filter(cluster=row).values_list("login__name")
        return dict(rows.annotate(used=Sum("gpu_seconds")).order_by())

    until(lambda: seen() == wanted, f"the portal has {wanted}", seconds=OUT)
