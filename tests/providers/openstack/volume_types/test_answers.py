"""What Cinder refuses about its types, or does not answer, in the portal's words."""

import uuid
from dataclasses import dataclass, field, replace

import pytest

from gpuaas.core.errors import Permanent, Unavailable
from gpuaas.providers.openstack.client import Cloud, Object, refusal
from gpuaas.providers.openstack.volume_types import classes, default_type, open_bought
from gpuaas.providers.openstack.volumes import CLOSED, quota_insist
from tests.providers.openstack.volume_types.test_quota import spec_of

TYPES: Object = {"volume_types": [{"id": "1", "name": "plain", "is_public": True}]}


@dataclass
class Answering(Cloud):
    """A cloud that answers with what it has for a path, or refuses with the status."""

    answers: dict[str, Object | int]
    made: list[str] = field(default_factory=list)

    @property
    def has_volumes(self) -> bool:
        return True

    def _call(self, method: str, service: str, path: str, **_: object) -> Object:
        self.made.append(f"{method} {path}")
        found = self.answers.get(path, 404)
        if isinstance(found, int):
            raise refusal(found, "no")
        return found


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 503])
def test_a_cinder_that_refuses_its_types_leaves_the_classes_unknown(status: int) -> None:
    assert classes(Answering({"/types": status})) is None


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_classes_are_not_known_without_an_answer_about_the_default(status: int) -> None:
    """Else no class would be plain storage, and each would be closed."""
    assert classes(Answering({"/types": TYPES, "/types/default": status})) is None


@pytest.mark.parametrize(("status", "default"), [(404, False), (500, None)])
def test_a_cloud_whose_default_type_is_not_there_has_classes(status: int, default: bool | None) -> None:
    """500 is also the answer to a question that Cinder answers a moment later."""
    found = classes(Answering({"/types": TYPES, "/types/default": status}))
    assert [(each.name, each.default) for each in found or ()] == [("plain", default)]


def test_a_cloud_that_is_busy_does_not_look_like_one_without_a_default() -> None:
    with pytest.raises(Unavailable):
        default_type(Answering({"/types/default": 503}))


@dataclass
class Quota(Cloud):
    """The quota of a project, in a cloud that keeps of it what it is said to."""

    limits: dict[str, int]
    keeps: bool

    @property
    def has_volumes(self) -> bool:
        return True

    def _call(self, method: str, *_: object, json: Object | None = None, **__: object) -> Object:
        if json and self.keeps:
            self.limits |= json["quota_set"]
        rows = {key: {"limit": each, "in_use": 0, "reserved": 0} for key, each in self.limits.items()}
        return {"quota_set": rows}


def test_a_limit_that_the_cloud_does_not_keep_is_a_refusal_in_words() -> None:
    spec = spec_of(5, {"plain": 5})
    types = ("gigabytes_plain", "volumes_plain", "snapshots_plain")
    before = {**dict.fromkeys(CLOSED, 0), **dict.fromkeys(types, 9)}
    keeping = Quota({**before}, keeps=True)
    quota_insist(keeping, "p1", spec)
    assert keeping.limits["gigabytes_plain"] == 5
    words = r"does not keep them \(.*gigabytes_plain is 9 instead of 5.*\).*quota of the project p1"
    with pytest.raises(Permanent, match=words):
        quota_insist(Quota({**before}, keeps=False), "p1", spec)


def test_what_sleeps_is_not_kept_from_it_by_a_type() -> None:
    cloud, spec = Answering({"/types": 403}), spec_of(5, {"plain": 5})
    open_bought(cloud, uuid.uuid4().hex, replace(spec, suspended=True))
    assert cloud.made == []
