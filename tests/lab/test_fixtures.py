"""The lab's fixtures, without a lab."""

import pytest


def test_no_test_pays_for_the_build_of_the_lab_with_its_own_time(pytestconfig: pytest.Config) -> None:
    """What stands later in the list is called earlier."""
    names = [impl.plugin_name for impl in pytestconfig.hook.pytest_runtest_protocol.get_hookimpls()]
    assert names.index("tests.lab.fixtures") > names.index("timeout"), (
        "the clock runs while programs are built"
    )
