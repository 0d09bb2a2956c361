"""The style page: every component with sample data, for eyes and for tests. Reads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from frontend import components as c
from frontend import toasts
from frontend.charts import Chart, Series
from frontend.context import Console, attach
from frontend.forms import Form
from frontend.lists import Head
from frontend.nav import Choice, Crumb, NavItem, NavSection
from gpuaas.core.looks import Tone

TYPE = (
    ("28 / 36", "28", "€4,780.60"),
    ("20 / 28", "20", "llama-tune"),
    ("16 / 24", "16", "A sheet's title"),
    ("14 / 20", "14", "A card's title"),
    ("13 / 20", "13", "Body, tables and controls. 0123456789"),
    ("12 / 16", "12", "labels, meta and table heads"),
    ("11 / 16", "11", "axis and key caps"),
)
COLORS = tuple(
    names.split()
    for names in (
        "bg surface sunken raised hover selected line line-2 line-strong text text-2 text-3",
        "accent accent-hover accent-soft fill fill-soft track",
        "ok-soft ok-mark ok busy-soft busy-mark busy warn-soft warn-mark warn bad-soft bad-mark bad",
        "c1 c2 c3 c4 c5 c6",
    )
)
STATES = (
    ("ok", "Ready", False),
    ("ok", "Running", False),
    ("busy", "Provisioning", False),
    ("busy", "Resizing", False),
    ("warn", "Degraded", False),
    ("warn", "Pending", True),
    ("bad", "Failed", False),
    ("bad", "Unreachable", False),
    ("off", "Suspended", False),
    ("wait", "Requested", False),
)
METERS = (
    c.Meter(4, 2, limit=8, label="Some in use"),
    c.Meter(4, limit=4, label="Full"),
    c.Meter(4, 2, 2, limit=8, label="Asking"),
    c.Meter(4, 2, 4, limit=8, label="Asking too much"),
    c.Meter(21, 11, limit=48, label="Large"),
    c.Meter(4, 2, limit=4, label="Lowered", text="6 of 4, new ones blocked"),
    c.Meter(
        Decimal("7010.85"),
        Decimal("5769.05"),
        label="Budget",
        limit=14000,
        budget=12000,
        text="€7,010.85 of €12,000",
    ),
)
ROWS = (
    ("fold-main", "ok", "Ready", "protein-fold", "32 × H100", c.Meter(32, limit=32), Decimal("26792.00")),
    ("relion", "ok", "Ready", "cryo-em", "16 × H100", c.Meter(12, 4, limit=16), Decimal("17789.89")),
    ("sim-a", "warn", "Degraded", "grasp-sim", "16 × H100", c.Meter(13, 3, limit=16), Decimal("17146.88")),
    ("cordex", "ok", "Ready", "downscale", "8 × H100", c.Meter(8, limit=8), Decimal("6644.42")),
    ("llama-tune", "busy", "Resizing", "weather-lm", "6 × H100", c.Meter(4, 2, limit=6), Decimal("4780.60")),
    ("tides", "ok", "Ready", "ocean-tides", "4 × A100", c.Meter(4, limit=4), Decimal("2616.69")),
)
STEPS = (
    c.TimelineStep("Capacity held", c.StepState.DONE, 0, 0.3, 0.2, "4 × L40S at fra-os"),
    c.TimelineStep("Network made", c.StepState.DONE, 0.3, 6, 5),
    c.TimelineStep(
        "Image not fetched",
        c.StepState.FAILED,
        6.3,
        11,
        None,
        "the mirror did not answer, next try in 40 s",
        may_retry=True,
    ),
    c.TimelineStep("Machines starting", c.StepState.RUNNING, 6.3, 24, 32, "3 of 4 answer"),
    c.TimelineStep("Check with a job", c.StepState.TODO, usual=8),
)
STATS = (
    c.Stat("GPUs held", "20", "and 11 shares", "17 and 7 in use now"),
    c.Stat("Running now", "€33.81", "per hour", "€38.61 after the resize"),
    c.Stat("November so far", "€13,655.27", "", "all of October: €23,583.92"),
    c.Stat("November expected", "€23,493.50", "", "weather-lm over its budget", Tone.WARN),
)


def _euros(*amounts: int) -> tuple[Decimal, ...]:
    return tuple(Decimal(f"{amount}.00") for amount in amounts)


CHART = Chart(
    id="cost",
    title="Cost per day",
    labels=tuple(str(day) for day in range(12, 22)),
    series=(
        Series("llama-tune", _euros(560, 570, 576, 576, 576, 576, 576, 576, 576, 576)),
        Series("cordex", _euros(120, 120, 130, 130, 130, 130, 130, 130, 130, 130)),
        Series("others", _euros(90, 100, 96, 110, 110, 110, 140, 140, 150, 150)),
    ),
    prefix="€",
    places=2,
    expected_from=7,
    limit=900,
    limit_label="budget per day",
    note="Expected: what is held now, until each lease ends.",
)
PANEL = c.AnswerPanel(
    title="4 × H100 SXM at ber-1",
    notice=c.Notice(
        Tone.BAD,
        "weather-lm may hold at most 8 H100",
        "Held: 6. Requested: 4. Available: 2.",
        (
            c.Action("Set count to 2", post="/dev/parts/answer/"),
            c.Action("Request a limit of 10", url="#answer"),
        ),
    ),
    meters=(c.Meter(4, 2, 4, limit=8, label="Limit of weather-lm"),),
    facts=(
        c.Fact("Free at ber-1 now", "41"),
        c.Fact("Largest block on one node", "8"),
        c.Fact("Ready in", "about 44 s"),
    ),
    lines=(c.PriceLine("4 × H100 SXM", "€9.60", "€6,912.00"), c.PriceLine("500 GiB", "€0.06", "€43.20")),
    total=c.PriceLine("Total", "€9.66", "€6,955.20"),
    lease_cost_label="To end of lease",
    lease_cost_note="675 h",
    lease_cost="€6,525.01",
    after=(c.Fact("November then ends at", "€15,821.43"),),
    warning="€3,821.43 over the budget of €12,000; it only warns",
    creates=(
        c.Creation("folder", "Namespace", "gpu-8c21-hindcast"),
        c.Creation("gauge", "Quota of 4 H100, 64 vCPU, 720 GiB; no other GPUs"),
        c.Creation("shield-check", "Network isolated from other tenants"),
    ),
    submit=c.Action("Create workspace", disabled="It exceeds the limit."),
)
CHIPS = (c.Chip("Site", "ber-1", "?"), c.Chip("State", "not deleted", "?"))


NAV = (
    NavSection(
        "",
        (
            NavItem("Home", "#", "home", "h"),
            NavItem("Workspaces", "#", "stack-2", "w", 4),
            NavItem("New workspace", "#", "plus", "n"),
        ),
    ),
    NavSection(
        "Project",
        (NavItem("Limits and budget", "#", "gauge", "l"), NavItem("Requests", "#", "checklist", "r", 1)),
    ),
    NavSection("Reference", (NavItem("Parts", "/dev/parts/", "components", current=True),)),
)


@dataclass(frozen=True)
class SampleUser:
    """Someone signed in, for the account menu."""

    email: str = "alice@example.org"
    is_authenticated: bool = True

    def get_username(self) -> str:
        return "alice"


def node(name: str, marks: str, detail: str = "", parts: int = 0) -> c.CapacityNode:
    """`marks`: one letter per GPU; u used, h held, f free, x unhealthy, c cordoned."""
    kinds = {
        "u": c.Amount.USED,
        "h": c.Amount.HELD,
        "f": c.Amount.FREE,
        "x": c.Amount.BAD,
        "c": c.Amount.CORDONED,
    }
    if parts:
        groups = [marks[place : place + parts] for place in range(0, len(marks), parts)]
        cells = tuple(c.GpuCell(c.Amount.USED, tuple(kinds[mark] for mark in group)) for group in groups)
    else:
        cells = tuple(c.GpuCell(kinds[mark]) for mark in marks)
    return c.CapacityNode(name, cells, detail, f"#{name}")


CAPACITY = (
    c.CapacityRow(
        "H100 SXM 80 GB",
        "ber-1, 6 nodes of 8",
        (
            *(node(f"h100-0{place}", "uuuuuuuu") for place in range(1, 4)),
            node("h100-04", "uuuuuuxf", "GPU 6: XID 79, fallen off the bus. Not sold until it is back."),
            node("h100-05", "uuuhhhff"),
            node("h100-06", "cccccccc", "Cordoned by olga for a driver upgrade."),
        ),
        33,
        3,
        3,
        9,
    ),
    c.CapacityRow(
        "L40S ¼ share",
        "ber-2, 2 nodes of 16",
        (node("l40s-01", "uuuuuuhhffffffff", parts=4), node("l40s-02", "f" * 16, parts=4)),
        6,
        2,
        24,
    ),
)


class SampleForm(Form):
    name = forms.CharField(initial="hindcast-v2", help_text="Lower case, digits and dashes.")
    gpus = forms.IntegerField(label="GPUs", min_value=1, max_value=16)
    storage = forms.IntegerField(
        label="Shared storage", required=False, help_text="1,312 of 2,000 GiB in use"
    )
    budget = forms.IntegerField(label="Budget, November")
    site = forms.ChoiceField(choices=[("ber-1", "ber-1"), ("fra-os", "fra-os")])
    namespace = forms.CharField(disabled=True, initial="gpu-7f3a-llama-tune")
    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 2}), initial="Two new models to train until May."
    )
    tell = forms.BooleanField(label="Tell me 3 days before", required=False)
    then = forms.ChoiceField(
        label="After the lease", widget=forms.RadioSelect, choices=[("s", "Suspend"), ("d", "Delete")]
    )


def sample_form() -> SampleForm:
    typed = {"name": "hindcast-v2", "gpus": 4, "storage": 500, "budget": 5000, "site": "ber-1"}
    chosen = {"tell": "on", "then": "s", "reason": "Two new models to train until May."}
    form = SampleForm({**typed, **chosen})
    form.add_error("budget", "€7,010.85 is spent already; take more than that.")
    return form


def index(request: HttpRequest) -> HttpResponse:
    """Puts a made-up scope on the request, as a middleware does on real pages."""
    projects = (
        Choice("weather-lm", "#", "Climate Physics", current=True),
        Choice("downscale", "#", "Climate Physics"),
    )
    topics = ("sample:1",) if request.GET.get("live") else ()
    console = Console("weather-lm", "Climate Physics", projects, time_zone="Europe/Berlin", topics=topics)
    attach(request, console)
    if request.GET.get("toast"):
        messages.success(request, "Lease extended to Sat 5 Dec")
    context = {
        "nav": NAV,
        "user": SampleUser(),
        "crumbs": (Crumb("Reference", "#"), Crumb("Parts")),
        "type_sizes": TYPE,
        "colors": COLORS,
        "states": STATES,
        "meters": METERS,
        "rows": ROWS,
        "steps": STEPS,
        "stats_items": STATS,
        "chart_sample": CHART,
        "panel": PANEL,
        "chip_items": CHIPS,
        "capacity": CAPACITY,
        "form": sample_form(),
        "sample_heads": (
            Head("Workspace", "?sort=name", "none"),
            Head("November", "?sort=-cost", "ascending", numeric=True),
        ),
        "page_obj": Paginator(range(60), 6).get_page(request.GET.get("page", "1")),
        "yaml_text": "resources:\n  limits:\n    nvidia.com/gpu: 2",
    }
    return render(request, "parts/index.html", context)


def sample(request: HttpRequest) -> HttpResponse:
    """What the live sample becomes when it fetches itself."""
    return render(request, "parts/live.html", {"fetched": True})


def accept(request: HttpRequest) -> HttpResponse:
    """Answers any sample action with a toast."""
    title = "Lease extended to Sat 5 Dec"
    return toasts.answer(tone="ok", title=title, text="€326.59 more", undo=request.path)
