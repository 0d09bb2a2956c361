"""When a pod held its devices, as far as its last state tells."""

from datetime import UTC, datetime
from typing import Any

from gpuaas.providers.kubernetes.pods import vanished

SEEN = datetime(2026, 11, 21, 12, 5, tzinfo=UTC)


def deleted(**status: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"}
    return {
        "metadata": {
            "uid": "1",
            "name": "one",
            "creationTimestamp": "2026-11-21T11:59:59Z",
            "deletionTimestamp": "2026-11-21T12:01:30Z",
        },
        "spec": {"nodeName": "h100-1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [scheduled], **status},
    }


def test_a_container_that_said_when_it_ended_is_believed_before_the_phase_follows() -> None:
    ended = {"name": "main", "state": {"terminated": {"finishedAt": "2026-11-21T12:01:01Z"}}}
    last = vanished(deleted(containerStatuses=[ended]), seen_at=SEEN)
    assert last.ended_at == datetime(2026, 11, 21, 12, 1, 1, tzinfo=UTC)


def test_without_its_word_the_deadline_is_the_end() -> None:
    running = {"name": "main", "state": {"running": {}}}
    for statuses in ([], [running]):
        last = vanished(deleted(containerStatuses=statuses), seen_at=SEEN)
        assert last.ended_at == datetime(2026, 11, 21, 12, 1, 30, tzinfo=UTC)
