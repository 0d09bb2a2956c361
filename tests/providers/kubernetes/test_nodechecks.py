"""What nvidia-smi printed is read with care."""

import pytest

from gpuaas.providers.kubernetes import nodechecks

HEAD = "index, name, uuid, driver_version, memory.total [MiB], ecc.errors.uncorrected.volatile.total\n"
WELL = "0, NVIDIA H100 80GB HBM3, GPU-0, 580.95.05, 81559 MiB, 0\n"
# what the command printed on a machine with an H100
REAL = HEAD + "0, NVIDIA H100 80GB HBM3, GPU-6eb5ec5b-0e89-894c-306d-c2f8a34b4bc7, 580.159.04, 81559 MiB, 0\n"


@pytest.mark.parametrize(
    ("output", "succeeded", "passes", "words"),
    [
        (REAL, True, True, "1 GPU seen, driver 580.159.04"),
        (HEAD + WELL, True, True, "1 GPU seen, driver 580.95.05"),
        (HEAD + WELL + WELL.replace("GPU-0", "GPU-1"), True, True, "2 GPUs seen"),
        (HEAD + WELL.replace(", 0\n", ", 3\n"), True, False, "uncorrected memory errors: GPU-0: 3"),
        (HEAD + WELL.replace(", 0\n", ", [N/A]\n"), True, True, "1 GPU seen"),
        ("a warning, with a comma\n" + HEAD + WELL, True, True, "1 GPU seen"),
        (HEAD, True, False, "0 GPUs seen"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            True,
            False,
            "no table",
        ),
        (HEAD + WELL, False, False, "failed"),
        ("", False, False, "failed"),
    ],
)
def test_what_it_printed(output: str, succeeded: bool, passes: bool, words: str) -> None:
    outcome = nodechecks.outcome(output, succeeded=succeeded)
    assert outcome.done
    assert outcome.succeeded == passes
    assert words in outcome.detail
    assert outcome.output == output
