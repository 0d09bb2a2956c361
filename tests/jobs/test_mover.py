"""What a mover is made of, and what is read of what it writes: whatever was ordered, and whatever it writes."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuaas.core.errors import Mistakes
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import CONFIG, SCRIPT, mover_of
from gpuaas.jobs.order import USUAL, order_read
from gpuaas.staging.rclone import HERE, config_of, failure_of, progress_of, script_of
from gpuaas.staging.transfers import FIELDS, Way
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.jobs.stage import SECRET, credential, submitted

S3 = {"url": "s3://sets/digits", "credential": "archive", "volume": "data", "folder": "in/digits"}
HTTPS = {"url": "https://data.example.org:8443/sets/one%20file.tar", "volume": "other", "folder": ""}


def commands(script: str) -> list[list[str]]:
    """What it does, without how it enters a folder."""
    found = map(shlex.split, script.splitlines())
    return [words for words in found if words[0] in {"echo", "enter", "rclone"}]


def test_it_has_no_gpu_and_its_files_alone_have_what_is_secret(as_alice: Actor, workspace: Workspace) -> None:
    credential(as_alice, workspace.project, region="eu-central-1")
    row = submitted(as_alice, workspace, gpus=4, inputs=[S3, HTTPS], deadline_seconds=600)
    spec = mover_of(Job.objects.get(pk=row.pk), Way.IN, sealed=False)
    assert (spec.gpus, spec.resource_name, spec.vcpus, spec.memory_gib) == (0, "", 1, 1)
    assert (spec.name, spec.deadline_seconds) == (f"{row.external_name}-in", 600)
    assert spec.volumes == {"data": "/volumes/0", "other": "/volumes/1"}
    assert commands(spec.files[SCRIPT]) == [
        ["echo", '{"transfer": 0}'],
        ["enter", "/volumes/0", "in", "digits"],
        ["rclone", "copy", "t0:sets/digits", HERE],
        ["echo", '{"transfer": 1}'],
        ["enter", "/volumes/1"],
        ["rclone", "copyto", "t1:sets/one file.tar", f"{HERE}/one file.tar"],
    ]
    config = spec.files[CONFIG]
    assert f"secret_access_key = {SECRET}\n" in config
    assert "endpoint = https://s3.example.org\nregion = eu-central-1\n" in config
    assert "[t1]\ntype = http\nurl = https://data.example.org:8443\n" in config
    assert SECRET not in repr(spec)
    assert not any(mover_of(row, Way.IN).files.values())


@pytest.mark.parametrize("key", ["`begins", '"""begins', "`both`", 'ends"', "a`b"])
def test_a_key_with_quotes_is_read_as_it_is_and_never_reported(key: str) -> None:
    """rclone writes a line that it cannot read into its log, of which the reason of a failure is made."""
    config = config_of([S3], {"archive": {"type": "s3", "secret_access_key": key}})
    written = config.splitlines()[2].removeprefix("secret_access_key = ")
    assert read_by_rclone(written) == key


def read_by_rclone(text: str) -> str | None:
    """The value behind `=`, by the rules of its configuration; None where it cannot be read."""
    mark = "`" if text[0] == "`" else '"""' if text.startswith('"""') and len(text) >= 6 else ""
    inner, found, _ = text[len(mark) :].rpartition(mark) if mark else (text, "none", "")
    return inner if found else None


def test_outputs_go_the_other_way() -> None:
    words = commands(script_of(Way.OUT, [{**S3, "folder": ""}], {"data": "/volumes/0"}))
    assert words[-2:] == [["enter", "/volumes/0"], ["rclone", "copy", HERE, "t0:sets/digits"]]


TEXTS = st.text(max_size=30)
PATHS = st.text(st.sampled_from("abcZ09 ._-/$`'\"\\;&|<>*(){}#~ä"), max_size=30)
ORDERED = st.fixed_dictionaries(
    {
        "url": st.builds("s3://bucket/{}".format, PATHS)
        | st.builds("https://example.org/{}".format, PATHS)
        | TEXTS,
        "credential": st.sampled_from(["", "archive"]),
        "volume": st.sampled_from(["data", "other", "../x"]),
        "folder": PATHS | TEXTS,
    }
)


@given(wanted=st.lists(ORDERED, max_size=4))
@example(wanted=[{"url": "s3://bucket/a//", "credential": "archive", "volume": "data", "folder": ""}])
def test_what_is_accepted_stays_in_its_place_whatever_a_shell_makes_of_it(
    wanted: list[dict[str, str]],
) -> None:
    wrong = Mistakes()
    read = order_read({**USUAL, "image": "train:1", "inputs": wanted}, wrong, {"archive"})["inputs"]
    if wrong.found:
        assert all(name.startswith("inputs.") for name in wrong.fields)
        return
    assert read == wanted
    places = {"data": "/volumes/0", "other": "/volumes/1"}
    found = commands(script_of(Way.IN, read, places))
    assert [words[0] for words in found] == ["echo", "enter", "rclone"] * len(read)
    for each, entered, (_, verb, source, target) in zip(read, found[1::3], found[2::3], strict=True):
        assert verb in {"copy", "copyto"}
        assert source.startswith("t")
        assert entered[1] == places[each["volume"]]
        assert not {"", ".."} & {*entered, *target.split("/")[1:]}
        assert ".." not in source.split("/")  # a bucket may have names that end in / or have //
        assert target.startswith(HERE)


# -- what a shell makes of it, in folders of this machine ----------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two volumes, what is secret beside them, and an rclone that lists all that it is named."""
    for name in ("volumes/0/runs/7", "volumes/1", "secret", "bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "secret/rclone.conf").touch()
    (tmp_path / "volumes/0/runs/7/weights").touch()
    stub = tmp_path / "bin/rclone"
    stub.write_text('#!/bin/sh\nfor each; do case "$each" in /*) ls -a "$each"/ ;; esac; done\n')
    stub.chmod(0o755)
    return tmp_path.resolve()


def moved(tree: Path, way: Way, folder: str) -> subprocess.CompletedProcess[str]:
    script = script_of(way, [{**S3, "folder": folder}], {"data": f"{tree}/volumes/0"})
    path = {"PATH": f"{tree}/bin:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", script], env=path, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("folder", ["out", "out/deep", "runs/7/up", "runs/7/up/secret"])
def test_a_link_leads_it_nowhere_but_into_its_volume(tree: Path, way: Way, folder: str) -> None:
    """The program of the job has made it."""
    (tree / "secret/deep").mkdir()
    (tree / "volumes/0/out").symlink_to(tree / "secret")
    (tree / "volumes/0/runs/7/up").symlink_to("../../../..")
    found = moved(tree, way, folder)
    assert (found.returncode, "rclone.conf" in found.stdout) == (1, False)
    words = failure_of(found.stdout, way, "its command ended with exit code 1")
    assert words.endswith("be moved: the folder leads out of its volume")


@pytest.mark.parametrize("way", Way)
def test_a_link_within_its_volume_is_followed(tree: Path, way: Way) -> None:
    (tree / "volumes/0/last").symlink_to("runs")
    found = moved(tree, way, "last/7")
    assert (found.returncode, "weights" in found.stdout) == (0, True)


def test_a_folder_is_made_for_inputs_alone(tree: Path) -> None:
    found = moved(tree, Way.OUT, "new/$(touch x) one")
    assert (found.returncode, (tree / "volumes/0/new").exists()) == (1, False)
    assert "the folder is not in its volume" in found.stdout
    assert moved(tree, Way.IN, "new/$(touch x) one").returncode == 0
    assert [each.name for each in (tree / "volumes/0/new").iterdir()] == ["$(touch x) one"]
    (tree / "volumes/0/file").touch()
    assert "the folder cannot be made in its volume" in moved(tree, Way.IN, "file/deep").stdout


def test_volumes_of_one_job_stay_apart(tree: Path) -> None:
    (tree / "volumes/0/other").symlink_to("../1")
    assert "leads out of its volume" in moved(tree, Way.IN, "other").stdout


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.text("/.s3:ab", max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | TEXTS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(inputs=JSON, outputs=JSON)
def test_whatever_is_sent_is_read_or_refused_at_a_field(inputs: Any, outputs: Any) -> None:
    wrong = Mistakes()
    read = order_read({"image": "train:1", "inputs": inputs, "outputs": outputs}, wrong, set())
    assert all(name.startswith(("inputs", "outputs")) for name in wrong.fields)
    assert all(set(each) == set(FIELDS) for way in ("inputs", "outputs") for each in read[way])


def stats(**counts: int) -> str:
    return json.dumps({"level": "notice", "msg": "…", "stats": counts})


def test_how_far_it_is_by_transfer() -> None:
    first = "\n".join(
        ['{"transfer": 0}', stats(bytes=1, totalBytes=8, transfers=1, totalTransfers=4, checks=2), "no JSON"]
    )
    found = progress_of(first, {"done": True})
    assert found == {"0": {"bytes": 1, "total_bytes": 8, "files": 1, "total_files": 4, "checked": 2}}
    found = progress_of('{"transfer": 1}\n' + stats(bytes=5), found)
    assert (found["0"]["bytes"], found["1"]) == (1, {"bytes": 5})
    # the beginning of a long log is not read: it is still the second one that goes on
    assert progress_of(stats(bytes=7), found)["1"] == {"bytes": 7}


def test_no_more_transfers_are_known_than_a_job_may_have() -> None:
    """Each would be kept for as long as the job, and the log is its member's to write."""
    assert progress_of("\n".join(json.dumps({"transfer": each}) for each in range(1000)), {}).keys() == set(
        "01234567"
    )


@given(text=TEXTS | st.lists(JSON.map(json.dumps), max_size=5).map("\n".join))
@example(text="[" * 16_000)  # a log on a Slurm cluster is its member's to write
@example(text='{"level": [], "msg": {}}')
def test_whatever_it_writes_is_read(text: str) -> None:
    found = progress_of(text, {})
    assert progress_of("", found) == found
    assert failure_of(text, Way.IN, "it failed").startswith("its inputs could not")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"level": "error", "msg": "first"}\n{"level": "error", "msg": "no such\\n bucket"}',
            "no such bucket",
        ),
        ("", "its command ended with exit code 3"),
        (json.dumps({"level": "error", "msg": "a\x00b\ud800c"}), "ab?c"),  # which no database keeps
    ],
)
def test_why_it_failed(text: str, words: str) -> None:
    found = failure_of(text, Way.OUT, "its command ended with exit code 3")
    assert found == f"its outputs could not be moved: {words}"
