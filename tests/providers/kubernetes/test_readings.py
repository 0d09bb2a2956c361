"""What the DCGM exporter says of the use of cards, from pages of its format, whole and broken."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.providers.base import DeviceReading
from gpuaas.providers.kubernetes import dcgm
from gpuaas.providers.kubernetes.readings import FIGURES, MOST
from tests.providers.kubernetes.test_dcgm import sample

POD = {"namespace": "gpu-1", "pod": "train-0", "container": "main"}
SLICE = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}


def told(*samples: str) -> tuple[DeviceReading, ...]:
    return dcgm.page_read("n1", "".join(samples)).readings


def one(*samples: str) -> DeviceReading:
    (found,) = told(*samples)
    return found


def test_a_card_with_its_pod() -> None:
    found = one(
        sample("DCGM_FI_DEV_GPU_UTIL", 87, **POD),
        sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4, **POD),
        sample("DCGM_FI_DEV_FB_USED", 61000, **POD),
        sample("DCGM_FI_DEV_FB_FREE", 20559, **POD),
        sample("DCGM_FI_DEV_POWER_USAGE", 612.4, **POD),
        sample("DCGM_FI_DEV_GPU_TEMP", 61, **POD),
        sample("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 9123456789, **POD),
        sample("DCGM_FI_PROF_NVLINK_TX_BYTES", 1000, **POD),
        sample("DCGM_FI_PROF_NVLINK_RX_BYTES", 500, **POD),
        sample("DCGM_FI_DEV_XID_ERRORS", 31, **POD),
    )
    assert found == DeviceReading(
        node="n1",
        device="GPU-0",
        index="0",
        product="NVIDIA H100 80GB HBM3",
        namespace="gpu-1",
        pod="train-0",
        container="main",
        utilization=87,
        memory_used_mib=61000,
        memory_free_mib=20559,
        power_watts=612.4,
        temperature=61,
        energy_mj=9123456789,
        nvlink=1500,
        xid=31,
    )


def test_of_a_slice_only_what_is_its_own() -> None:
    found = one(
        sample("DCGM_FI_DEV_GPU_UTIL", 87, **SLICE, **POD),
        sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.25, **SLICE, **POD),
        sample("DCGM_FI_DEV_FB_USED", 900, **SLICE, **POD),
        sample("DCGM_FI_DEV_POWER_USAGE", 612.4, **SLICE, **POD),
        sample("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 5, **SLICE, **POD),
    )
    assert (found.instance, found.profile, found.utilization, found.memory_used_mib) == (
        "3",
        "1g.10gb",
        25,
        900,
    )
    assert (found.power_watts, found.energy_mj) == (None, None)


def test_a_slice_without_its_own_figure_has_not_that_of_the_card() -> None:
    assert one(sample("DCGM_FI_DEV_GPU_UTIL", 87, **SLICE)).utilization is None


def test_the_engine_stands_in_where_a_card_tells_no_utilization() -> None:
    assert one(sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5)).utilization == 50


def test_pods_that_share_a_card_each_see_it_and_none_has_its_energy() -> None:
    first, second = told(
        sample("DCGM_FI_DEV_GPU_UTIL", 50, **POD),
        sample("DCGM_FI_DEV_GPU_UTIL", 50, **{**POD, "pod": "train-1"}),
        sample("DCGM_FI_DEV_POWER_USAGE", 300, **POD),
        sample("DCGM_FI_DEV_POWER_USAGE", 300),
    )
    assert (first.pod, second.pod) == ("train-0", "train-1")
    assert (first.power_watts, second.power_watts) == (None, None)


def test_a_prometheus_renames_labels_and_its_own_are_not_believed() -> None:
    renamed = {"exported_namespace": "gpu-1", "exported_pod": "train-0"}
    line = sample("DCGM_FI_DEV_GPU_UTIL", 1, namespace="monitoring", pod="dcgm-x", **renamed)
    (found,) = dcgm.page_read("n1", line, space="monitoring").readings
    assert (found.namespace, found.pod) == ("gpu-1", "train-0")


def test_a_label_of_a_tenants_pod_does_not_make_it_anothers() -> None:
    """An exporter may be told to add the labels of pods, which tenants choose."""
    forged = {"exported_namespace": "gpu-2", "exported_pod": "idle-0", "exported_container": "x"}
    line = sample("DCGM_FI_DEV_GPU_UTIL", 1, **forged, **POD)
    (found,) = dcgm.page_read("n1", line, space="monitoring").readings
    assert (found.namespace, found.pod, found.container) == ("gpu-1", "train-0", "main")


def test_a_label_of_a_tenants_pod_that_the_exporter_has_too_hides_nothing() -> None:
    """It stands between those of the card and those of the pod. Of two the exporter's own counts, and the page is read."""
    own = {"gpu": "0", "UUID": "GPU-0", "modelName": "NVIDIA H100 80GB HBM3"}
    forged = {"UUID": "GPU-7", "gpu": "yes", "namespace": "gpu-2", "pod": "idle-0"}
    words = ",".join(f'{key}="{word}"' for each in (own, forged, POD) for key, word in each.items())
    twice = "".join(
        f"{name}{{{words}}} {value}\n"
        for name, value in (("DCGM_FI_DEV_GPU_UTIL", 9), ("DCGM_FI_DEV_XID_ERRORS", 79))
    )
    found = dcgm.page_read("n1", twice + sample("DCGM_FI_DEV_GPU_UTIL", 1, "GPU-1"))
    assert [(each.device, each.index, each.namespace, each.pod) for each in found.readings] == [
        ("GPU-0", "0", "gpu-1", "train-0"),
        ("GPU-1", "0", "", ""),
    ]
    assert (found.health.cards, dict(found.health.sick)) == (2, {"": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 101),
        ("DCGM_FI_DEV_GPU_UTIL", -1),
        ("DCGM_FI_DEV_GPU_UTIL", "NaN"),
        ("DCGM_FI_DEV_GPU_UTIL", "+Inf"),
        ("DCGM_FI_DEV_FB_USED", 2147483632),  # DCGM's word for "not known"
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 9223372036854775792),
        ("DCGM_FI_DEV_POWER_USAGE", 1e9),
        ("DCGM_FI_DEV_GPU_TEMP", 4000),
        ("DCGM_FI_DEV_XID_ERRORS", 1e12),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.5),
    ],
)
def test_what_no_card_can_have_is_left_out(name: str, value: float | str) -> None:
    assert one(sample(name, value)) == one(sample("DCGM_FI_DEV_GPU_UTIL", "NaN"))


@pytest.mark.parametrize(
    "labels",
    [
        {"namespace": "<script>alert(1)</script>", "pod": "p"},
        {"namespace": "gpu-1", "pod": "../../etc"},
        {"namespace": "gpu-1", "pod": "p" * 300},
        {"namespace": "gpu-1", "pod": ""},
        {"namespace": "gpu-1"},
    ],
)
def test_what_is_no_name_of_a_pod_is_nobody(labels: dict[str, str]) -> None:
    found = one(sample("DCGM_FI_DEV_GPU_UTIL", 1, **labels))
    assert (found.namespace, found.pod, found.utilization) == ("", "", 1)


def test_a_device_without_a_possible_id_is_left_out_and_a_page_tells_of_so_many() -> None:
    assert told(sample("DCGM_FI_DEV_GPU_UTIL", 1, uuid="<b>")) == ()
    assert len(told(*(sample("DCGM_FI_DEV_GPU_UTIL", 1, f"GPU-{n}") for n in range(MOST + 50)))) == MOST


LINES = st.builds(
    lambda name, value, labels: f"{name}{{{','.join(f'{key}={word}' for key, word in labels)}}} {value}\n",
    st.sampled_from([*FIGURES, "DCGM_X", "# TYPE DCGM_FI_DEV_GPU_UTIL"]),
    st.one_of(st.floats(), st.text(max_size=8), st.integers()),
    st.lists(
        st.tuples(
            st.sampled_from(["UUID", "gpu", "pod", "namespace", "GPU_I_ID", "GPU_I_PROFILE", "exported_pod"]),
            st.one_of(st.text(max_size=12).map(lambda text: f'"{text}"'), st.text(max_size=6)),
        ),
        max_size=5,
    ),
)


@given(text=st.one_of(st.text(max_size=200), st.lists(LINES, max_size=6).map("".join)))
def test_no_page_breaks_the_round_and_no_figure_is_absurd(text: str) -> None:
    try:
        found = dcgm.page_read("n1", text).readings
    except ValueError:
        return
    for each in found:
        assert each.utilization is None or 0 <= each.utilization <= 100
        assert each.energy_mj is None or 0 <= each.energy_mj <= 2**53
        assert each.power_watts is None or math.isfinite(each.power_watts)
        words = (
            each.device,
            each.index,
            each.instance,
            each.profile,
            each.namespace,
            each.pod,
            each.container,
        )
        assert all(word.isascii() and word.isprintable() and len(word) <= 253 for word in words)
        assert not set("<>&\"'") & set("".join(words))
