"""The kinds that come with the portal. An operator adds versions to them, or retires them, like any other."""

from typing import Any

from gpuaas.environments.models import EnvironmentKind
from gpuaas.environments.services import kind_create, kind_version_add
from tenants.actors import SYSTEM, Actor

# on all GPUs that it sees
SERVE = (
    'exec vllm serve "$MODEL" --host=0.0.0.0 --port=8000 --max-model-len="$CONTEXT" '
    '--tensor-parallel-size="`nvidia-smi --list-gpus | wc -l`"'
)
# standalone Spark: its memory is what other programs of a worker leave of it. The driver has the name that the workers know, and
# without workers runs alone
SPARK_MEMORY = "$((WORKER_MEMORY_GIB * 768 - 256))m"
SPARK_MAIN = (
    "export SPARK_CONF_DIR=/tmp/spark-conf SPARK_DAEMON_MEMORY=512m; "
    'mkdir -p "$SPARK_CONF_DIR"; [ ! -d "$SPARK_HOME/conf" ] || cp -r "$SPARK_HOME/conf/." "$SPARK_CONF_DIR"; '
    'if [ "$WORKERS" -gt 0 ]; then '
    'printf "%s\\n" "" "spark.master spark://$MAIN:7077" "spark.driver.host $MAIN" '
    f'"spark.executor.memory {SPARK_MEMORY}" >> "$SPARK_CONF_DIR/spark-defaults.conf"; '
    'while :; do "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "$MAIN" --port 7077; '
    "sleep 5; done & fi; "
    'exec "$@"'
)
SPARK_WORKER = (
    'export SPARK_DAEMON_MEMORY=512m; exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker '
    f'--cores "$WORKER_VCPUS" --memory "{SPARK_MEMORY}" --work-dir /tmp/spark-work "spark://$MAIN:7077"'
)
NOTEBOOK = [
    "start-notebook.py",
    "--ServerApp.ip=0.0.0.0",
    "--ServerApp.port=8888",
    "--ServerApp.allow_remote_access=True",
    "--IdentityProvider.token=",
]
# Nobody signs in at the container: it is reached through the portal's way in or a tunnel, and by nothing else.
SHIPPED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "jupyterlab": (
        "JupyterLab",
        "Notebooks in the browser, with Python and what scientists use of it.",
        {
            "image": "quay.io/jupyter/scipy-notebook:lab-4.4.3",
            "command": NOTEBOOK[:1],
            "arguments": NOTEBOOK[1:],
            "port": 8888,
            "readiness": "/api",
            "activity": "jupyter",
            "home": "/home/jovyan",
            "gpus": 1,
            "vcpus": 4,
            "memory_gib": 16,
            "home_gib": 20,
        },
    ),
    "code-server": (
        "code-server",
        "An editor in the browser, with a terminal.",
        {
            "image": "docker.io/codercom/code-server:4.100.3",
            "command": ["/usr/bin/code-server"],
            "arguments": ["--auth=none", "--bind-addr=0.0.0.0:8080", "--disable-telemetry", "/home/coder"],
            "port": 8080,
            "readiness": "/healthz",
            "activity": "code-server",
            "home": "/home/coder",
            "gpus": 0,
            "vcpus": 2,
            "memory_gib": 8,
            "home_gib": 20,
        },
    ),
    "tensorboard": (
        "TensorBoard",
        "Curves of training runs, from the logs in its home.",
        {
            "image": "docker.io/tensorflow/tensorflow:2.19.0",
            "command": ["tensorboard"],
            "arguments": ["--bind_all", "--port=6006", "--logdir=/home/user/$(LOGS)"],
            "port": 6006,
            "home": "/home/user",
            "variables": ["HOME=/home/user"],
            "gpus": 0,
            "vcpus": 1,
            "memory_gib": 4,
            "home_gib": 10,
            "parameters": {
                "type": "object",
                "properties": {
                    "logs": {
                        "type": "string",
                        "title": "Folder of the logs in its home",
                        "pattern": "^[A-Za-z0-9._/-]+$",
                        "default": "logs",
                    }
                },
            },
        },
    ),
    "shell": (
        "Shell",
        "A shell with CUDA's compilers, entered by SSH.",
        {
            "image": "docker.io/nvidia/cuda:12.9.1-devel-ubuntu24.04",
            # as the first process of a container, `sleep` itself would not end when it is asked to
            "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"],
            "home": "/home/ubuntu",
            "gpus": 1,
            "vcpus": 4,
            "memory_gib": 16,
            "home_gib": 20,
        },
    ),
    "spark": (
        "Spark",
        "Notebooks with PySpark, whose work is done by workers of a size that you choose.",
        {
            "image": "quay.io/jupyter/pyspark-notebook:lab-4.4.3",
            "command": ["/bin/sh", "-c", SPARK_MAIN, "spark"],
            "arguments": NOTEBOOK,
            "port": 8888,
            "readiness": "/api",
            "activity": "jupyter",
            "home": "/home/jovyan",
            "gpus": 0,
            "vcpus": 2,
            "memory_gib": 8,
            "home_gib": 20,
            "workers": {
                "most": 32,
                "count": 2,
                "command": ["/bin/sh", "-c", SPARK_WORKER],
                # two Javas are in each, and Python
                "memory_gib_least": 2,
            },
        },
    ),
    "vllm": (
        "Model endpoint",
        "A language model by vLLM, for programs that speak OpenAI's API. Create keys for them under Access.",
        {
            "image": "docker.io/vllm/vllm-openai:v0.9.2",
            "command": ["/bin/sh", "-c"],
            "arguments": [SERVE],
            "port": 8000,
            "readiness": "/health",
            "access": ["public", "workspace", "private", "organization"],
            # requests at the door are its use; what is asked for every day stays
            "idle_hours": 24,
            "metrics": "vllm",
            "home": "/home/user",
            # of the weights; the account has no name in the image, and Python asks for one
            "variables": ["HOME=/home/user", "USER=user"],
            "gpus": 1,
            "vcpus": 8,
            "memory_gib": 64,
            "home_gib": 100,
            "parameters": {
                "type": "object",
                "required": ["model"],
                "properties": {
                    "model": {
                        "type": "string",
                        "title": "Model, by its name at Hugging Face or its folder in the home",
                        "pattern": "^[A-Za-z0-9/][A-Za-z0-9._/-]*$",
                        "maxLength": 200,
                    },
                    "context": {
                        "type": "integer",
                        "title": "Longest context in tokens",
                        "minimum": 256,
                        "maximum": 1048576,
                        "default": 8192,
                    },
                },
            },
        },
    ),
}


def kinds_ship(*, actor: Actor) -> tuple[int, int]:
    """Adds those that are not there, and their versions of now to those of which the portal has written the newest; what somebody
    else has added stays the newest. Returns how many kinds and versions were added."""
    known = {row.slug: row for row in EnvironmentKind.objects.prefetch_related("versions")}
    kinds = versions = 0
    for slug, (name, description, document) in SHIPPED.items():
        if slug not in known:
            kind_create(actor=actor, slug=slug, name=name, description=description, document=document)
            kinds += 1
            continue
        newest = known[slug].versions.all()[0]
        if newest.created_by == SYSTEM.name and newest.document != document:
            note = "as it comes with the portal"
            kind_version_add(actor=actor, kind=known[slug], document=document, note=note)
            versions += 1
    return kinds, versions
