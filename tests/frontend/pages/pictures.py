"""The pictures of the guides: their names, whose page each one shows, and where that is."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "docs/pictures"
THEMES = ("light", "dark")


@dataclass(frozen=True)
class Picture:
    """`path` names what the stage has made. `press`: the buttons that are pressed
    before; `type`: what is typed then; `fill`: fields by their names, and what is
    entered, until the form has nothing against it; `shows`: what is awaited."""

    reader: str
    path: str
    press: tuple[str, ...] = ()
    type: str = ""
    fill: tuple[tuple[str, str], ...] = ()
    shows: str = ""


PICTURES = {
    "cluster": Picture("alice", "/p/weather-lm/clusters/{cluster}/"),
    "cluster-order": Picture("alice", "/p/weather-lm/clusters/new/kubernetes/"),
    "cluster-policy": Picture(
        "alice",
        "/p/weather-lm/clusters/{cluster}/policies/{policy}/",
        ("Test on the last 7 days",),
        shows="Workers and pending GPUs",
    ),
    "environment": Picture("alice", "/p/weather-lm/environments/{notebook}/"),
    "environment-order": Picture(
        "alice",
        "/p/weather-lm/environments/new/jupyterlab/?workspace={lab}",
        fill=(("name", "ablation"), ("vcpus", "8"), ("memory_gib", "64"), ("idle_hours", "12")),
    ),
    "home": Picture("alice", "/p/downscale/"),
    "job": Picture("alice", "/p/weather-lm/jobs/{array}/"),
    "job-guest": Picture("alice", "/p/weather-lm/jobs/{guest}/"),
    "job-new": Picture(
        "alice",
        "/p/weather-lm/jobs/new/?template=training&workspace={lab}",
        fill=(
            ("name", "train-90"),
            ("command", "python train.py --data /data/era5"),
            ("arguments", "--epochs 90 --resume latest"),
            ("variables", "EPOCHS=90\nSEED=7"),
            ("gpus", "2"),
            ("vcpus", "16"),
            ("memory_gib", "128"),
            ("volume", "era5"),
            ("mount", "/data"),
        ),
    ),
    "job-queued": Picture("alice", "/p/weather-lm/jobs/{queued}/"),
    "jobs": Picture("alice", "/p/weather-lm/jobs/"),
    "limits": Picture("alice", "/p/downscale/limits/"),
    "model-endpoint": Picture("alice", "/p/weather-lm/environments/{endpoint}/"),
    "model-endpoint-keys": Picture("alice", "/p/weather-lm/environments/{endpoint}/access/"),
    "machine-new": Picture("alice", "/p/weather-lm/workspaces/{room}/machines/new/"),
    "machines": Picture("alice", "/p/weather-lm/workspaces/{room}/machines/"),
    "operator-cluster-template": Picture("olga", "/operator/cluster-templates/of/kubernetes/"),
    "operator-environment-kinds": Picture("olga", "/operator/environment-kinds/"),
    "operator-flavors": Picture("olga", "/operator/flavors/"),
    "operator-drift": Picture("olga", "/operator/sites/at/ber-1/drift/"),
    "operator-import": Picture("olga", "/operator/cluster-templates/of/k8s/import/"),
    "operator-limits": Picture(
        "olga", "/operator/limits/", ("Change weather-lm, H100 SXM 80 GB:",), type="12", shows="→ 12"
    ),
    "operator-overview": Picture("olga", "/operator/"),
    "operator-plan": Picture("olga", "/operator/sites/at/ber-1/adoption/plans/{plan}/"),
    "operator-site": Picture("olga", "/operator/sites/at/ber-1/"),
    "operator-system": Picture("olga", "/operator/system/"),
    "operator-warm-pool": Picture("olga", "/operator/cluster-templates/of/kubernetes/warm-pools/{warm}/"),
    "request": Picture("alice", "/p/weather-lm/workspaces/new/?flavor=h100-sxm-80gb.1"),
    "statement": Picture("alice", "/p/downscale/statements/2026-10/"),
    "workspace": Picture("alice", "/p/weather-lm/workspaces/{workspace}/"),
}


def file_of(name: str, theme: str) -> str:
    return f"{name}-{theme}.png"
