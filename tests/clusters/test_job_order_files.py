"""Whatever is ordered of files on a Slurm cluster is refused at its field, or stays in the home whatever a shell makes of it."""

import shlex
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuaas.clusters.job_order import LOGS, Partition, job_order_read
from gpuaas.clusters.services.movers import SHELL
from gpuaas.core.errors import Mistakes
from gpuaas.staging.rclone import HERE, config_of, script_of
from gpuaas.staging.transfers import FIELDS, Way
from tests.jobs.test_mover import PATHS, TEXTS

PLACES = {"gpu": Partition("gpu", 2, 32, 360, workers=2)}
ORDER = {"name": "train", "script": "true"}
ORDERED = st.fixed_dictionaries(
    {
        "url": st.builds("s3://bucket/{}".format, PATHS)
        | st.builds("https://example.org/{}".format, PATHS)
        | TEXTS,
        "credential": st.sampled_from(["", "archive", "other"]),
        "volume": st.sampled_from(["", "data"]),
        "folder": st.sampled_from([LOGS, ".", "", "/", "data/digits"]) | PATHS | TEXTS,
    }
)


@given(wanted=st.lists(ORDERED, max_size=4), way=st.sampled_from(Way))
def test_what_is_accepted_stays_in_the_home(wanted: list[dict[str, str]], way: Way) -> None:
    wrong, name = Mistakes(), f"{way}puts"
    read = job_order_read({**ORDER, name: wanted}, PLACES, wrong, credentials={"archive"})[name]
    if wrong.found:
        assert all(each.startswith(f"{name}.") for each in wrong.fields)
        return
    script = script_of(way, read, {"": '"$HOME"'}, "the home")
    words = [
        shlex.split(line) for line in (SHELL + script).splitlines() if line.startswith(("enter ", "rclone "))
    ]
    assert [each[0] for each in words] == ["enter", "rclone"] * len(wanted)
    for entered, moved in zip(words[::2], words[1::2], strict=True):
        assert entered[1] == "$HOME"
        folders = [each for each in entered[2:] if each != "."]
        assert folders
        assert folders[0] != LOGS
        assert not {"", ".."} & set(folders)
        (here,) = [each for each in moved[2:] if each.startswith(HERE)]
        assert ".." not in here.split("/")
    secret = config_of(read, {"archive": {"type": "s3", "secret_access_key": "s"}})
    assert [line for line in secret.splitlines() if line.startswith("[")] == [
        f"[t{at}]" for at in range(len(read))
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | TEXTS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(inputs=JSON, outputs=JSON)
def test_whatever_is_sent_is_read_or_refused_at_a_field(inputs: Any, outputs: Any) -> None:
    wrong = Mistakes()
    given = {**ORDER, "inputs": inputs, "outputs": outputs}
    read = job_order_read(given, PLACES, wrong, credentials=set())
    assert all(name.startswith(("inputs", "outputs")) for name in wrong.fields)
    assert all(set(each) == set(FIELDS) for name in ("inputs", "outputs") for each in read[name])
