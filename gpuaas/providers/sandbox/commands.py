"""What jobs do at a simulated site, by what their commands say.

`sleep 5` anywhere in the command takes five seconds, `exit 3` fails with that code, `oom` needs too much memory, and an image
with `missing` in its name cannot be had. A failure behind `[ $JOB_COMPLETION_INDEX = 4 ]` is of that task alone.
"""

import re

from gpuaas.providers.base import JobSpec
from gpuaas.providers.sandbox.models import SandboxJob

SLEEP, EXIT = re.compile(r"\bsleep (\d{1,6})\b"), re.compile(r"\bexit (\d{1,3})\b")
ONLY = re.compile(r"\$JOB_COMPLETION_INDEX = (\d{1,4})\b")
OOM, MISSING = "oom", "missing"


def seconds_of(spec: JobSpec) -> int | None:
    """None: it never ends by itself."""
    if MISSING in spec.image:
        return None
    found = SLEEP.search(words_of(spec))
    return int(found[1]) if found else 0


def result_of(spec: JobSpec, task: int = 0) -> tuple[int, str, str]:
    """How an attempt ends that runs to its end: the code, the reason in one word, and in a sentence."""
    if spec.launcher and task:  # it only serves task 0
        return 0, "", ""
    words = words_of(spec)
    only = ONLY.search(words)
    if only is not None and int(only[1]) != task:
        return 0, "", ""
    if OOM in words:
        return 137, "OOMKilled", f"it needed more than its {spec.memory_gib} GiB of memory"
    found = EXIT.search(words)
    code = int(found[1]) if found else 0
    return code, "Error", f"its command ended with exit code {code}"


def words_of(spec: JobSpec) -> str:
    return " ".join((*spec.command, *spec.arguments))


def owner_of(job: SandboxJob) -> str:
    return f"Job/{job.name}"
