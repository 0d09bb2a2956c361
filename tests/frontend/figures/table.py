"""FIGURES: every figure of money that runs and of GPUs that stands in more than one place, the one selector that makes it, and the places.

A new place for one of them is a new line there. Whoever shows such a figure from anywhere else is found by test_figures.py.
"""

from tests.frontend.figures.gpus import GPUS
from tests.frontend.figures.months import MONTH
from tests.frontend.figures.rates import CLUSTER, RUNNING, lease, room

FIGURES = (
    *(room(name) for name in ("train", "asleep", "pending", "leaving", "infer")),
    *(lease(name) for name in ("train", "asleep", "infer")),
    *CLUSTER,
    *RUNNING,
    *MONTH,
    *GPUS,
)
