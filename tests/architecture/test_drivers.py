"""A driver is one folder: little of the product knows it by name, and none of it the driver that comes as a plug-in."""

import re
from pathlib import Path

import pytest

from gpuaas.providers.registry import BUILT_IN
from tests.architecture.test_house import GENERATED, ROOT, tracked

PRODUCT = ("gpuaas/", "tenants/", "quotas/", "billing/", "frontend/", "deploy/embedded/", "deploy/docker/")
ALONE = {"pyproject.toml", "manage.py", "Makefile"}
TEXT = {".py", ".html", ".ts", ".toml", ".in", ".sql", ".yaml", ""}
FILES_MOST = 4
# in what folder each is
DRIVERS = {
    "kubernetes": "gpuaas/providers/kubernetes",
    "openshift": "gpuaas/providers/kubernetes/openshift",
    "openstack": "gpuaas/providers/openstack",
    "bare-metal": "gpuaas/providers/baremetal",
    "openshift-bare-metal": "gpuaas/providers/baremetal",
    "sandbox": "gpuaas/providers/sandbox",
    "sandbox-cloud": "gpuaas/providers/sandbox",
    "cluster-api": "gpuaas/providers/clusterapi",
    "vcluster": "gpuaas/providers/vcluster",
}
# where the same word means something else: a kind of cluster, a library's log, the Service of every API server
OTHERWISE = {
    "kubernetes": {
        "gpuaas/clusters/states.py",
        "gpuaas/providers/base/cluster.py",
        "gpuaas/core/logs.py",
        "gpuaas/providers/vcluster/making.py",
        "gpuaas/providers/vcluster/manifests.py",
    },
    "openshift": {"gpuaas/providers/kubernetes/adoption/find.py"},  # names of its own namespaces
}


def product() -> list[tuple[str, str]]:
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if (name.startswith(PRODUCT) or name in ALONE) and path.suffix in TEXT and not GENERATED.search(name):
            found.append((name, path.read_text(encoding="utf-8")))
    return found


FILES = product()


def outside(driver: str, folder: str) -> list[str]:
    """Files that import from its folder, or name it as a value: quoted, or typed as `driver=…`."""
    module = re.escape(folder.removeprefix("gpuaas/providers/")).replace("/", "[./]")
    known = re.compile(rf"(?<!tests/)providers[./]{module}\b|[\"'=]{re.escape(driver)}[\"'&\s]")
    found = {name for name, text in FILES if not name.startswith(f"{folder}/") and known.search(text)}
    return sorted(found - OTHERWISE.get(driver, set()))


@pytest.mark.parametrize("driver", DRIVERS)
def test_few_files_know_a_driver_by_name(driver: str) -> None:
    found = outside(driver, DRIVERS[driver])
    assert len(found) <= FILES_MOST, found


def test_every_driver_of_ours_is_counted() -> None:
    folders = {module.removesuffix(".kind").replace(".", "/") for module in BUILT_IN}
    assert folders == set(DRIVERS.values())
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_nothing_of_the_product_knows_the_plug_in() -> None:
    assert Path(ROOT / "tests/providers/plugin/gpuaas_shelf.py").exists()
    assert outside("shelf", "tests/providers/plugin") == []
