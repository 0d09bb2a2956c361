"""What our own drivers declare."""

from gpuaas.core.declaration import NOTHING
from gpuaas.core.schema_form import fields_of
from gpuaas.providers.registry import kinds_known


def test_every_driver_of_ours_says_what_it_is() -> None:
    for kind in kinds_known():
        assert kind.label, kind.name
        assert kind.summary.endswith("."), kind.name
        assert kind.provisions or kind.attaches, kind.name
        for field in (*fields_of(kind.credentials), *fields_of(kind.options or NOTHING)):
            assert field.label[0].isupper() or field.label == "clouds.yaml", field


def test_what_was_never_run_on_the_real_thing_is_experimental() -> None:
    assert {kind.name for kind in kinds_known() if kind.experimental} == {"openshift-bare-metal"}
