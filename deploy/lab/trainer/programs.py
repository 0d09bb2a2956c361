"""JobSet and Trainer: the JobSet is the one that this Trainer was released with."""

from pathlib import Path

import yaml

from deploy.lab.cluster_api.manifests import Manifest
from deploy.lab.cluster_api.programs import Change, ChangedPrograms, Pins
from deploy.lab.cluster_api.settings import Controller

HERE = Path(__file__).parent
JOBSET_MODULE, TRAINER_MODULE = "sigs.k8s.io/jobset", "github.com/kubeflow/trainer/v2"
JOBSET = Controller("jobset", JOBSET_MODULE, JOBSET_MODULE, "config/components", 0)
TRAINER = Controller(
    "trainer", TRAINER_MODULE, f"{TRAINER_MODULE}/cmd/trainer-controller-manager", "manifests/base", 1
)
PINS = Pins(HERE / "build", (JOBSET, TRAINER))


class TrainerPrograms(ChangedPrograms):
    """Trainer makes certificates for a Service, which it reads at a fixed place and puts into its webhooks; here it gets those of the
    lab."""

    changes = (
        Change(
            TRAINER.name,
            "cmd/trainer-controller-manager/main.go",
            "webhook.Options{",
            'webhook.Options{Host: "127.0.0.1", CertDir: os.Getenv("CERTIFICATES"),',
        ),
        Change(
            TRAINER.name,
            "pkg/util/cert/cert.go",
            "\treturn cert.AddRotator(",
            '\tif os.Getenv("CERTIFICATES") != "" {\n\t\tclose(setupFinished)\n\t\treturn nil\n\t}\n\treturn cert.AddRotator(',
        ),
    )

    def found(self, controller: Controller) -> dict[str, list[Manifest]]:
        """Trainer has its types in a folder of another name, and runtimes beside them."""
        if controller != TRAINER:
            return super().found(controller)
        base = self.source_of(controller.module) / controller.config
        (wanted,) = _read(base / "crds" / "kustomization.yaml")
        return {
            "types": [each for name in wanted["resources"] for each in _read(base / "crds" / name)],
            "webhooks": _read(base / "webhook" / "manifests.yaml"),
            "runtimes": _read(base / "runtimes" / "torch_distributed.yaml"),
        }


def _read(path: Path) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]
