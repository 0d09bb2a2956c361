"""What the chart makes, by rule: hardened, probed, bounded, told what the settings read, named as Kubernetes allows."""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet

from tests.architecture import reference
from tests.deploy.helm.chart import (
    BY_QUEUE,
    CASES,
    CHART,
    DEFAULT,
    EVERYTHING,
    TRIAL,
    Helm,
    Object,
    containers,
    kinds,
    pods,
)
from tests.deploy.installed import taken_by_the_portal

ROOT = Path(__file__).resolve().parents[3]
READ = re.compile(r'env\.(?:text|words|networks|boolean|integer|database|mail|address|collector)\(\s*"(\w+)"')
# the image's own
NOT_OF_THE_CHART = {
    "GPUAAS_DEBUG",
    "GPUAAS_STATIC_ROOT",
    "GPUAAS_DOOR_BIND",
    "GPUAAS_DOOR_SSH_BIND",
    "GPUAAS_POSTGRES_PROGRAMS",
    "GPUAAS_SITES_ON_LOOPBACK",  # a pod's own machine has no site
}
MANDATORY = {
    "GPUAAS_SECRET_KEY_FILE",
    "GPUAAS_ENCRYPTION_KEYS_FILE",
    "GPUAAS_ALLOWED_HOSTS",
    "GPUAAS_PUBLIC_URL",
    "GPUAAS_DATABASE_URL_FILE",
    "GPUAAS_BROKER_URL_FILE",
}
ELSEWHERE = {**DEFAULT, "backup": {"elsewhere": True}}
RENDERED: dict[str, list[Object]] = {}


@pytest.fixture(params=CASES)
def objects(helm: Helm, request: pytest.FixtureRequest) -> list[Object]:
    if request.param not in RENDERED:
        RENDERED[request.param] = helm.render(CASES[request.param])
    return RENDERED[request.param]


def test_every_container_is_hardened_and_bounded(objects: list[Object]) -> None:
    for owner, spec in pods(objects):
        name, security = owner["metadata"]["name"], spec["securityContext"]
        assert security["runAsNonRoot"], name
        assert security["runAsUser"] >= 100, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name
        assert all("hostPath" not in volume for volume in spec.get("volumes", ())), name
    for name, one in containers(objects):
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert {"cpu", "memory"} <= set(one["resources"]["requests"]), name
        assert "memory" in one["resources"]["limits"], name


def test_every_deployment_is_probed_spread_and_has_a_budget(objects: list[Object]) -> None:
    budgets = [found["spec"]["selector"] for found in kinds(objects, "PodDisruptionBudget").values()]
    for name, found in {**kinds(objects, "Deployment"), **kinds(objects, "StatefulSet")}.items():
        (container,) = found["spec"]["template"]["spec"]["containers"]
        assert "livenessProbe" in container, name
        assert {"startupProbe", "readinessProbe"} & set(container), name
        assert budgets.count(found["spec"]["selector"]) == 1, name
        assert found["spec"]["selector"]["matchLabels"].items() <= labels(found).items(), name
        if found["kind"] == "Deployment":
            assert len(found["spec"]["template"]["spec"]["topologySpreadConstraints"]) == 2, name
    web = kinds(objects, "Deployment")["portal-gpuaas-web"]["spec"]
    assert web["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert kinds(objects, "Deployment")["portal-gpuaas-scheduler"]["spec"]["strategy"] == {"type": "Recreate"}


def labels(found: Object) -> Any:
    return found["spec"]["template"]["metadata"]["labels"]


def test_what_selects_finds_pods(objects: list[Object]) -> None:
    of_pods = [labels(found) for found in objects if found["kind"] in {"Deployment", "StatefulSet"}]
    selectors = {
        **{name: found["spec"]["selector"] for name, found in kinds(objects, "Service").items()},
        **{
            f"policy {name}": found["spec"]["podSelector"]["matchLabels"]
            for name, found in kinds(objects, "NetworkPolicy").items()
        },
    }
    for name, selector in selectors.items():
        assert any(selector.items() <= one.items() for one in of_pods), name


def test_the_door_sees_whose_network_asks(helm: Helm) -> None:
    """A balancer keeps the client's address; Kubernetes refuses the field where nothing outside leads to the service."""
    for kind, policy in (("LoadBalancer", "Local"), ("ClusterIP", None)):
        values = {**EVERYTHING, "door": {**EVERYTHING["door"], "service": {"type": kind}}}
        door = kinds(helm.render(values), "Service")["portal-gpuaas-door"]
        assert door["spec"].get("externalTrafficPolicy") == policy, kind


def test_processes_are_told_what_the_settings_read(objects: list[Object]) -> None:
    known = {row.name for row in reference.settings()}
    read = {name for pair in known for name in (pair, f"{pair}_FILE")}
    for name, one in containers(objects):
        told = {each["name"] for each in one.get("env", ())}
        if "args" not in one:
            assert not {each for each in told if each.startswith("GPUAAS_")}, name
            continue
        assert {each for each in told if each.startswith("GPUAAS_")} <= read, name
        assert told >= MANDATORY, name
        assert len(told) == len(one["env"]), name


def test_whatever_the_settings_read_can_be_set(helm: Helm) -> None:
    told = {
        name
        for values in (EVERYTHING, TRIAL)
        for _, one in containers(helm.render(values))
        for each in one.get("env", ())
        for name in (each["name"], each["name"].removesuffix("_FILE"))
    }
    assert variables_read() - told == NOT_OF_THE_CHART


def test_archives_are_made_by_a_job_and_only_then_expected(helm: Helm) -> None:
    for values, expected in ((DEFAULT, "false"), (EVERYTHING, "true"), (ELSEWHERE, "true")):
        found = helm.render(values)
        (web,) = kinds(found, "Deployment")["portal-gpuaas-web"]["spec"]["template"]["spec"]["containers"]
        told = {each["name"]: each.get("value") for each in web["env"]}
        assert told["GPUAAS_BACKUPS_EXPECTED"] == expected
        assert bool(kinds(found, "CronJob")) == (values is EVERYTHING)
    job = kinds(helm.render(EVERYTHING), "CronJob")["portal-gpuaas-backup"]["spec"]
    spec = job["jobTemplate"]["spec"]["template"]["spec"]
    (one,) = spec["containers"]
    taken_by_the_portal(one["args"])
    assert one["args"] == ["backup", "/backups", "--keep", "30", "--with-keys"]
    assert job["concurrencyPolicy"] == "Forbid"
    mounts = {mount["name"] for mount in one["volumeMounts"]}
    assert mounts == {volume["name"] for volume in spec["volumes"]} >= {"archives", "passphrase"}
    (claim,) = kinds(helm.render(EVERYTHING), "PersistentVolumeClaim").values()
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["storageClassName"] == "slow"
    own = {**EVERYTHING, "backup": {"enabled": True, "persistence": {"existingClaim": "archives"}}}
    assert not kinds(helm.render(own), "PersistentVolumeClaim")
    (one,) = pods([kinds(helm.render(own), "CronJob")["portal-gpuaas-backup"]])
    assert "--with-keys" not in one[1]["containers"][0]["args"]


def test_web_pods_trust_whom_the_values_name(helm: Helm) -> None:
    for values, told in ((DEFAULT, None), (EVERYTHING, "10.244.0.0/16,2001:db8::1")):
        (web,) = kinds(helm.render(values), "Deployment")["portal-gpuaas-web"]["spec"]["template"]["spec"][
            "containers"
        ]
        found = {each["name"]: each.get("value") for each in web["env"]}
        assert found.get("GPUAAS_TRUSTED_PROXIES") == told


def variables_read() -> set[str]:
    settings = (ROOT / f"gpuaas/settings/{name}.py" for name in ("base", "door", "production"))
    places = (*settings, ROOT / "tenants/signin.py")
    return {name for place in places for name in READ.findall(place.read_text("utf-8"))}


@pytest.mark.parametrize("case", ["default", "trial", "everything"])
def test_the_portal_starts_with_what_it_is_told(helm: Helm, case: str, tmp_path: Path) -> None:
    """A process of its own, with the variables and files of the web container."""
    rendered = helm.render(CASES[case])
    (web,) = kinds(rendered, "Deployment")["portal-gpuaas-web"]["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", "10.0.0.1") for each in web["env"]}
    for name, value in environment.items():
        if name.endswith("_FILE") and name != "GPUAAS_ALIVE_FILE":
            path = tmp_path / Path(value).name
            path.write_text(SECRETS[path.name], "utf-8")
            environment[name] = str(path)
    environment["GPUAAS_ALLOWED_HOSTS"] = environment["GPUAAS_ALLOWED_HOSTS"].replace("$(POD_IP)", "10.0.0.1")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUAAS_", "DJANGO_"))}
    done = subprocess.run(
        [sys.executable, "-c", "import gpuaas.asgi"],
        cwd=ROOT,
        env={**kept, **environment, "DJANGO_SETTINGS_MODULE": "gpuaas.settings.production"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


SECRETS = {
    "secret-key": "a secret key of more than thirty-two characters",
    "encryption-keys": Fernet.generate_key().decode(),
    "database-url": "postgres://portal:word@db.example.org/gpuaas",
    "broker-url": "redis://broker.example.org/0",
    "channels-url": "redis://live.example.org/0",
    "mail-url": "smtp+tls://portal:word@mail.example.org:587",
    "oidc-client-secret": "word",
    "metrics-token": "token",
}


def test_a_secret_that_the_chart_makes_is_of_use(helm: Helm) -> None:
    (secret,) = kinds(helm.render(TRIAL), "Secret").values()
    assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert len(data["secret-key"]) == 50
    Fernet(data["encryption-keys"])
    assert f":{data['postgresql-password']}@portal-gpuaas-postgresql:5432/" in data["database-url"]
    assert f":{data['redis-password']}@portal-gpuaas-redis:6379/" in data["broker-url"]
    assert kinds(helm.render(DEFAULT), "Secret") == {}


@pytest.mark.parametrize("case", CASES)
def test_an_upgrade_that_changes_nothing_restarts_nothing(helm: Helm, case: str) -> None:
    first, later = (helm.render(CASES[case], *flags) for flags in ((), ("--is-upgrade",)))
    for kind in ("Deployment", "StatefulSet"):
        assert kinds(first, kind) == kinds(later, kind)


@pytest.mark.parametrize(
    ("case", "at_install", "at_upgrade"),
    [
        ("default", {"pre-install,pre-upgrade"}, {"pre-install,pre-upgrade"}),
        ("trial", {"", "pre-upgrade"}, {"pre-upgrade"}),
    ],
)
def test_migrations_run_when_their_database_is_there(
    helm: Helm, case: str, at_install: set[str], at_upgrade: set[str]
) -> None:
    for flags, hooks in (((), at_install), (("--is-upgrade",), at_upgrade)):
        jobs = kinds(helm.render(CASES[case], *flags), "Job").values()
        assert {job["metadata"].get("annotations", {}).get("helm.sh/hook", "") for job in jobs} == hooks
        for job in jobs:
            # before an installation the chart's own account is not there yet
            early = "annotations" in job["metadata"]
            account = job["spec"]["template"]["spec"]["serviceAccountName"]
            assert account == ("default" if early else "portal-gpuaas")


def test_workers_by_queue(helm: Helm) -> None:
    found = kinds(helm.render(BY_QUEUE), "Deployment")
    args = {
        name.partition("-worker-")[2]: one["spec"]["template"]["spec"]["containers"][0]["args"]
        for name, one in found.items()
        if "-worker-" in name
    }
    assert args == {
        "sites": ["worker", "--concurrency", "4", "--queues", "celery"],
        "a" * 20: ["worker", "--concurrency", "4", "--queues", "celery,slow"],
    }


def test_a_worker_may_end_its_task_before_it_is_killed(helm: Helm) -> None:
    base = (ROOT / "gpuaas/settings/base.py").read_text("utf-8")
    limit = int(re.findall(r"^CELERY_TASK_TIME_LIMIT = (\d+)", base, re.MULTILINE)[0])
    spec = kinds(helm.render(DEFAULT), "Deployment")["portal-gpuaas-worker-general"]["spec"]["template"][
        "spec"
    ]
    assert spec["terminationGracePeriodSeconds"] > limit


def test_autoscaling_alone_decides_how_many(helm: Helm) -> None:
    found = helm.render(EVERYTHING)
    assert "replicas" not in kinds(found, "Deployment")["portal-gpuaas-web"]["spec"]
    (scaler,) = kinds(found, "HorizontalPodAutoscaler").values()
    assert scaler["spec"]["scaleTargetRef"]["name"] == "portal-gpuaas-web"


def test_every_process_is_scraped_where_it_answers(helm: Helm) -> None:
    found = helm.render(EVERYTHING)
    (monitor,) = kinds(found, "PodMonitor").values()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    policy = kinds(found, "NetworkPolicy")["portal-gpuaas-metrics"]["spec"]
    (let_in,) = policy["podSelector"]["matchExpressions"]
    scraped = set()
    for one in kinds(found, "Deployment").values():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        told = {each["name"]: each.get("value") for each in container["env"]}
        if endpoint["port"] in ports:
            assert told["GPUAAS_METRICS_BIND"] == f"$(POD_IP):{ports['metrics']}"
            assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": ports["metrics"]}]
            assert monitor["spec"]["selector"]["matchLabels"].items() <= labels(one).items()
            scraped.add(labels(one)["app.kubernetes.io/component"])
    assert scraped == set(let_in["values"]) >= {"scheduler", "meter"}
    assert "PodMonitor" not in {one["kind"] for one in helm.render(DEFAULT)}


def test_the_rules_are_those_of_the_repository(helm: Helm) -> None:
    (rule,) = kinds(helm.render(EVERYTHING), "PrometheusRule").values()
    assert rule["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_names_fit_whatever_the_release_is_called(helm: Helm, case: str) -> None:
    long = "a-release-with-a-name-as-long-as-helm-takes-it-at-all"
    assert len(long) == 53
    for found in helm.render(CASES[case], release=long):
        name = found["metadata"]["name"]
        assert len(name) <= (52 if found["kind"] == "StatefulSet" else 63), name
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
        assert all(len(value) <= 63 for value in found["metadata"].get("labels", {}).values()), name


def test_releases_with_long_names_do_not_meet(helm: Helm) -> None:
    names = [
        {found["metadata"]["name"] for found in helm.render(TRIAL, release=f"{'portal-' * 7}{end}")}
        for end in ("a", "b")
    ]
    assert not names[0] & names[1]
