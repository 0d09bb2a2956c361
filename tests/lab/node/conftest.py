"""What a test of the node makes, and that it is gone afterwards."""

import uuid
from collections.abc import Iterator

import pytest

from deploy.lab.node import Lab
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import Place


@pytest.fixture
def place(node_lab: Lab) -> Iterator[Place]:
    """A namespace of the test's own; its pods end with it, so that their GPUs are free."""
    kubectl = Kubectl(node_lab.control)
    made = Place(kubectl, f"test-{uuid.uuid4().hex[:8]}")
    kubectl.create_namespace(made.namespace)
    yield made
    kubectl.run("delete", "namespace", made.namespace, "--wait=false")
    made.empty()
