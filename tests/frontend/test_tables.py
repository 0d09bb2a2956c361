"""Every table of a page is a list by the frame, or one of those below, which cannot be long or are no lists.

`frontend/lists.py` gives a list of more than ten rows its order, filters, pages and file (decision 0095).
"""

import re
from pathlib import Path

import pytest

import frontend

TEMPLATES = Path(frontend.__file__).parent / "templates"
TABLE = re.compile(r"<table\b|\{% table\b")

# how many tables of the template are none of the frame, and why
EXEMPT = {
    "billing/_credits.html": (1, "the settlement of one document, by credit, with what is left of each"),
    "billing/budget.html": (1, "what each of the three thresholds does"),
    "billing/invoice.html": (3, "a document, its corrections and its write-offs"),
    "billing/statement.html": (2, "a document"),
    "billing/usage.html": (1, "the GPU types of a project, of which there are few"),
    "catalog/_flavors.html": (1, "the choices of a form, with filters beside it"),
    "clusters/_ledger.html": (1, "ten objects, with a link to all"),
    "clusters/_pools.html": (1, "the pools of one cluster, as its template has them"),
    "clusters/policies.html": (1, "the pools of one cluster, as its template has them"),
    "components/answer.html": (1, "the lines of one quote"),
    "components/chart.html": (1, "the numbers of a chart, in the order of its axis"),
    "components/listing.html": (1, "the frame"),
    "home/project.html": (1, "the twelve newest workspaces, with a link to all"),
    "workspaces/_free.html": (1, "what one workspace has free: a row for each of its amounts"),
    "jobs/queue.html": (1, "the guests of one workspace, as many as its room holds"),
    "jobs/_transfers.html": (1, "the rows of a form"),
    "machines/_rooms.html": (1, "the choices of a form"),
    "machines/list.html": (1, "what a workspace has bought: a row for each of its flavors"),
    "operator/_close_checks.html": (1, "a fixed number of checks"),
    "operator/closes.html": (1, "the steps of one close, in their order"),
    "operator/cluster_template_import.html": (2, "one comparison, in the order of the schema"),
    "operator/limits_matrix.html": (1, "the matrix: its rows are a list, its cells are edited"),
    "operator/overview.html": (2, "the largest few, with bars"),
    "operator/site_effect.html": (1, "before and after, by GPU type"),
    "operator/site_node.html": (1, "the GPU types of one node"),
    "operator/usage_imports.html": (
        1,
        "what is asked about; the rest is counted and listed once it is imported",
    ),
    "parts/data.html": (1, "a sample of the components"),
    "workspaces/_cost.html": (1, "the lines of one price"),
    "workspaces/_differences.html": (1, "what one finding is made of"),
    "workspaces/_effect.html": (1, "the lines of one price"),
    "workspaces/_pods.html": (1, "ten of what runs, with a link to all"),
}


def tables() -> dict[str, int]:
    found = {
        str(path.relative_to(TEMPLATES)): len(TABLE.findall(path.read_text()))
        for path in TEMPLATES.rglob("*.html")
    }
    return {name: count for name, count in found.items() if count}


def test_every_table_is_a_list_by_the_frame_or_has_a_reason() -> None:
    known = {name: count for name, (count, _) in EXEMPT.items()}
    assert tables() == known, (
        "declare a Listing and draw it by `{% listing %}`, or say why it needs no order, pages and file"
    )


@pytest.mark.parametrize("name", sorted(EXEMPT))
def test_a_reason_is_a_reason(name: str) -> None:
    assert len(EXEMPT[name][1]) > 8


def test_no_list_is_paged_by_hand() -> None:
    """`{% pager %}` is the frame's, and that of two lists that are no tables."""
    by_hand = {
        str(path.relative_to(TEMPLATES))
        for path in TEMPLATES.rglob("*.html")
        if "{% pager" in path.read_text()
    }
    assert by_hand == {
        "components/listing.html",
        "operator/flavors.html",  # a form for each GPU pool that is not sold yet
        "operator/limits.html",  # the matrix
        "operator/rate_card.html",  # versions on a timeline
        "parts/data.html",
    }
