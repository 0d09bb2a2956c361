"""FIGURES: every figure of money and of GPUs that stands in more than one place, the one selector that makes it, and the places:
pages, API, CSV, FOCUS, PDF, mail and gauges.

A new place for one of them is a new line there: nothing but this table finds who shows such a figure from elsewhere.
"""

from tests.frontend.figures.gpus import GPUS
from tests.frontend.figures.invoices import INVOICE, LEDGER
from tests.frontend.figures.money import HOURS, SUMS, holder
from tests.frontend.figures.months import MONTH
from tests.frontend.figures.rates import CLUSTER, RUNNING, lease, room

FIGURES = (
    *(room(name) for name in ("train", "asleep", "pending", "leaving", "infer", "tiny", "share")),
    *(lease(name) for name in ("train", "asleep", "infer", "tiny")),
    *(
        figure
        for name in ("train", "infer", "tiny", "share", "gone", "sim", "warm")
        for figure in holder(name)
    ),
    *CLUSTER,
    *RUNNING,
    *MONTH,
    *HOURS,
    *SUMS,
    *INVOICE,
    *LEDGER,
    *GPUS,
)
