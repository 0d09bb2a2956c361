"""The portal itself as pods of a real node: installed, a site and its reconciler on the same cluster, upgraded and rolled back."""

import base64
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.image.build import build
from deploy.lab.base import print_report
from deploy.lab.files import CACHE
from deploy.lab.node import Lab
from gpuaas.backup.archive import archive_read
from gpuaas.backup.services import keys_write
from tests.deploy.helm import servers
from tests.deploy.helm.chart import Helm
from tests.deploy.helm.release import BACKUPS, DATA, HOST, NAME, Release, all_ready, folder, volume
from tests.deploy.helm.test_server import named
from tests.lab.fixtures import until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import Place

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3 * 3600)]
HERE = Path(__file__).parent
TAG = "docker.io/library/gpuaas"  # what Kubernetes makes of `gpuaas`
USER = 10001  # of the image
PASSPHRASE = "battery staple horse"
OWN = "https://10.96.0.1"  # the cluster's own API, as pods reach it


@pytest.fixture(scope="module")
def release(helm: Helm, node_lab: Lab) -> Iterator[Release]:
    """Installed, and everything of it Ready."""
    node_lab.load_image(servers.image())
    node_lab.load_image(build(CACHE / "gpuaas-helm-bin", name=TAG, report=print_report).archive)
    kubectl, namespace = Kubectl(node_lab.control), f"helm-{uuid.uuid4().hex[:8]}"
    place = Place(kubectl, namespace)
    place.create(
        named(namespace),
        volume(node_lab, DATA, namespace, user=servers.USER),
        volume(node_lab, BACKUPS, namespace, user=USER),
    )
    place.run("create", "secret", "generic", "passphrase", f"--from-literal=backup-passphrase={PASSPHRASE}")
    made = Release(helm, node_lab, place)
    made.change("install")
    yield made
    made.run("uninstall", NAME)
    secret = kubectl.get("secret", f"{NAME}-gpuaas", "-n", namespace)
    assert "encryption-keys" in secret["data"], "what opens the database's secrets is kept"
    kubectl.run("delete", "namespace", namespace, "--wait=false")
    kubectl.run("delete", "persistentvolume", "-l", f"helm-test={namespace}", "--wait=false")
    made.place.empty()


@dataclass(frozen=True)
class Tenant:
    token: str
    flavor: str


@pytest.fixture(scope="module")
def tenant(release: Release) -> Tenant:
    """The very cluster attached as a site by its role, and somebody who may order there."""
    kubectl = release.place.kubectl
    kubectl.run("apply", "-f", "-", text=release.manage("site_role"))
    token = kubectl.run("create", "token", "gpuaas-portal", "-n", "gpuaas-portal", "--duration=24h").strip()
    authority = base64.b64encode((release.lab.control.pki / "ca.crt").read_bytes()).decode()
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "own",
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        "clusters": [{"name": "own", "cluster": {"server": OWN, "certificate-authority-data": authority}}],
        "users": [{"name": "own", "user": {"token": token}}],
    }
    attach = ["site_attach", "--slug=own", "--driver=kubernetes", "--kubeconfig=/dev/stdin"]
    attach += ["--publish", "--without-price"]
    said = release.manage(*attach, text=json.dumps(kubeconfig))
    assert "l4-24gb" in said, said
    said = release.manage("shell", "--no-imports", "-c", (HERE / "stage.py").read_text("utf-8"))
    (line,) = [each for each in said.splitlines() if each.startswith("TOKEN ")]
    return Tenant(*line.split()[1:])


def test_it_is_ready_and_answers_through_its_service(release: Release) -> None:
    all_ready(release)
    assert "Succeeded" in release.run("test", NAME)
    with release.opened() as door:
        assert door.ask("GET", "/health/ready").status == 200
        page = door.ask("GET", "/accounts/login/")
        assert (page.status, "password" in page.json) == (200, True)
        assert door.ask("GET", "/api/v1/me").status == 401
    said = release.manage(
        "operator_create", "olga", "--email=olga@example.org", text="correct horse battery\n"
    )
    assert "olga is an operator" in said


def test_its_reconciler_makes_a_workspace_on_the_same_cluster(release: Release, tenant: Tenant) -> None:
    with ordered(release, tenant, "train") as made:
        quotas = release.place.kubectl.get("resourcequotas", "--all-namespaces")["items"]
        hard = [one["spec"]["hard"].get("requests.nvidia.com/gpu") for one in quotas]
        assert hard.count("1") == 1, made


@pytest.mark.parametrize("way", ["upgrade", "rollback"])
def test_a_change_of_the_release_under_load_loses_nothing(release: Release, tenant: Tenant, way: str) -> None:
    path = "/api/v1/projects/weather-lm"
    with release.opened() as door:
        before = door.ask("GET", path, token=tenant.token).json["version"]
    pods = running(release)
    begin_load(release, tenant, way)
    if way == "upgrade":
        release.change("upgrade", settings={"GPUAAS_PROVIDER_NAME": "Second"})
    else:
        release.run("rollback", NAME, "1", "--wait", "--timeout=20m")
    said = end_load(release, way)
    assert said["bad"] == []
    assert min(said["read"], said["changed"]) > 20
    assert not pods & running(release)
    with release.opened() as door:
        assert door.ask("GET", path, token=tenant.token).json["version"] == before + said["changed"]
        page = door.ask("GET", "/accounts/login/").json
    assert ("Second" in page) == (way == "upgrade")
    with ordered(release, tenant, way) as made:
        assert made["state"] == "ready"


def test_its_nightly_backup_is_an_archive_that_holds_the_keys(release: Release, tmp_path: Path) -> None:
    release.place.run("create", "job", "night", f"--from=cronjob/{BACKUPS}")
    release.place.run("wait", "--for=condition=complete", "job/night", "--timeout=20m")
    assert "every sum is right" in release.place.logs("job/night")
    (archive,) = folder(release.lab, BACKUPS, release.place.namespace).iterdir()
    assert (archive.stat().st_uid, archive.stat().st_mode & 0o777) == (USER, 0o700)
    assert keys_write(path=archive, to=tmp_path / "keys", passphrase=PASSPHRASE)
    last = "from gpuaas.backup.selectors import backup_last; print(backup_last().taken_at.isoformat())"
    assert archive_read(archive).taken_at in release.manage("shell", "--no-imports", "-c", last)


def running(release: Release) -> set[str]:
    return {name for part in ("web", "worker-general", "scheduler", "meter") for name in release.pods(part)}


@contextmanager
def ordered(release: Release, tenant: Tenant, name: str) -> Iterator[Any]:
    """A workspace with one GPU, as soon as it is ready; gone afterwards, as the node has few cores."""
    path = "/api/v1/projects/weather-lm/workspaces"
    body = {"name": name, "items": [{"flavor": tenant.flavor, "count": 1}]}
    with release.opened() as door:

        def state(*wanted: str) -> Any:
            found = door.ask("GET", f"{path}/{made.json['id']}", token=tenant.token).json
            assert found.get("state") != "failed", found
            return found if found.get("state", "gone") in wanted else None

        made = door.ask("POST", path, body, token=tenant.token)
        assert made.status == 202, made.json
        yield until(lambda: state("ready"), f"{name} is ready")
        ended = door.ask("DELETE", f"{path}/{made.json['id']}", token=tenant.token)
        assert ended.status == 202, ended.json
        until(lambda: state("deleted", "gone"), f"{name} is gone")


def begin_load(release: Release, tenant: Tenant, name: str) -> None:
    """Returns when requests are under way."""
    (web,) = list(release.pods("web").values())[:1]
    container = {
        **{key: web["spec"]["containers"][0][key] for key in ("image", "securityContext")},
        "name": "load",
        "command": ["python3", "-c", (HERE / "load.py").read_text("utf-8")],
        "args": [f"{NAME}-gpuaas", HOST, tenant.token, "weather-lm"],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": web["spec"]["securityContext"],
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"load-{name}"}, "spec": spec}
    release.place.create(pod)
    release.place.phase(f"load-{name}", "Running")
    until(lambda: "begun" in release.place.logs(f"load-{name}"), "the load has begun")


def end_load(release: Release, name: str) -> Any:
    """What it says of all its requests."""
    stop = "open('/tmp/stop', 'w').close()"
    release.place.run("exec", f"load-{name}", "--", "python3", "-c", stop)
    release.place.phase(f"load-{name}", "Succeeded")
    return json.loads(release.place.logs(f"load-{name}").splitlines()[-1])
