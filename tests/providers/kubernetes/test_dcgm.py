"""What the DCGM exporter says of cards, from pages of its format."""

import pytest

from gpuaas.core.conditions import Status
from gpuaas.providers.kubernetes import dcgm

HEAD = """# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
"""


def sample(name: str, value: float | str, uuid: str = "GPU-0", **labels: object) -> str:
    given = {"gpu": "0", "UUID": uuid, "device": "nvidia0", "modelName": "NVIDIA H100 80GB HBM3", **labels}
    text = ",".join(f'{key}="{label}"' for key, label in given.items())
    return f"{name}{{{text}}} {value}\n"


def page(*samples: str) -> str:
    return HEAD + "".join(sample("DCGM_FI_DEV_GPU_TEMP", 40, f"GPU-{n}") for n in range(4)) + "".join(samples)


def sick(*samples: str) -> dict[str, int]:
    return dict(dcgm.page_read("n1", page(*samples)).health.sick)


def test_cards_without_errors_are_well() -> None:
    found = dcgm.page_read("n1", page(sample("DCGM_FI_DEV_XID_ERRORS", 0))).health
    assert (found.node, found.cards, dict(found.sick)) == ("n1", 4, {})
    assert found.check.status == Status.TRUE


@pytest.mark.parametrize(
    ("line", "is_sick"),
    [
        (sample("DCGM_FI_DEV_XID_ERRORS", 79), True),
        (sample("DCGM_FI_DEV_XID_ERRORS", 48), True),
        (sample("DCGM_FI_DEV_XID_ERRORS", 13), False),  # a program's own fault
        (sample("DCGM_FI_DEV_XID_ERRORS", 31), False),
        (sample("DCGM_FI_DEV_XID_ERRORS", 43), False),
        (sample("DCGM_FI_DEV_XID_ERRORS", "NaN"), False),
        (sample("DCGM_EXP_XID_ERRORS_COUNT", 2, xid="79", window_size_in_ms="300000"), True),
        (sample("DCGM_EXP_XID_ERRORS_COUNT", 2, xid="31", window_size_in_ms="300000"), False),
        (sample("DCGM_EXP_XID_ERRORS_COUNT", 0, xid="79", window_size_in_ms="300000"), False),
        (sample("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1), True),
        (sample("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0), False),
        (sample("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 7), False),  # corrected
        (sample("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 7), False),  # of its whole life
        (sample("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1), True),
        (sample("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0), False),
        ("some_other_metric 79\n", False),
    ],
)
def test_what_makes_a_card_sick(line: str, is_sick: bool) -> None:
    assert sick(line) == ({"": 1} if is_sick else {})


def test_two_reasons_are_one_card_and_two_cards_are_two() -> None:
    xid, ecc = sample("DCGM_FI_DEV_XID_ERRORS", 79), sample("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 3)
    assert sick(xid, ecc) == {"": 1}
    assert sick(xid, sample("DCGM_FI_DEV_XID_ERRORS", 79, "GPU-1")) == {"": 2}
    message = dcgm.page_read("n1", page(xid, ecc)).health.check.message
    assert "GPU-0" in message
    assert "XID 79" in message
    assert "double-bit" in message


def slices(*profiles: str) -> list[str]:
    return [
        sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, GPU_I_PROFILE=profile, GPU_I_ID=number)
        for number, profile in enumerate(profiles)
    ]


def test_a_slice_is_sick_by_itself_and_a_sick_card_with_all_its_slices() -> None:
    cut = slices("3g.40gb", "1g.10gb", "1g.10gb")
    one = sample("DCGM_FI_DEV_XID_ERRORS", 94, GPU_I_PROFILE="1g.10gb", GPU_I_ID=1)
    assert sick(*cut, one) == {"1g.10gb": 1}
    assert sick(*cut, sample("DCGM_FI_DEV_XID_ERRORS", 79)) == {"": 1, "3g.40gb": 1, "1g.10gb": 2}
    assert sick(*cut, one, sample("DCGM_FI_DEV_XID_ERRORS", 79)) == {"": 1, "3g.40gb": 1, "1g.10gb": 2}


def test_a_page_without_cards_is_not_known() -> None:
    assert dcgm.page_read("n1", HEAD).health.check.status == Status.UNKNOWN


@pytest.mark.parametrize("text", ["<html>not found</html>", 'DCGM_X{UUID="a" 1', "\x00\x01"])
def test_what_is_no_such_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        dcgm.page_read("n1", text)
