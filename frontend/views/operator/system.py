"""Whether the portal itself works: its processes, what waits for them, how each site is heard, what it is made of."""

from django.http import HttpRequest, HttpResponseBase

from frontend.lists import Column, Listing, find, list_page, saying
from frontend.presenters.operator.system import parts_shown, processes_shown, sites_shown, work_shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.system.selectors import system_get
from gpuaas.system.versions import installed

PROCESSES = Listing(
    "processes",
    columns=(
        Column("process", "Process", "kind", "kind"),
        Column("host", "Host", "row__host", "row.host"),
        Column("pid", value="row.pid"),
        Column("state", "State", "word", "word"),
        Column("version", "Version", "row__version", "row.version"),
        Column("started_at", "Running since", "row__started_at", "row.started_at"),
        Column("seen_at", "Last seen", "row__seen_at", "row.seen_at"),
        Column("clock", "Clock"),
    ),
    filters=(find("Find a process, host or state", "Process, host or state"),),
    mark="process-",
)
SITES = Listing(
    "sites",
    columns=(
        Column("site", "Site", "row__site__slug", "row.site.slug"),
        Column("state", "State", "word", "word"),
        Column("heard_at", "Meter", "row__heard_at", "row.heard_at"),
        Column("answer_ms", "Response", "row__site__answer_ms", "row.site.answer_ms", numeric=True),
        Column("open", "Open", "row__visited__open", "row.visited.open", numeric=True),
        Column("oldest", "Oldest", "row__visited__oldest", "row.visited.oldest"),
        Column("done", "Done", "row__visited__succeeded", "row.visited.succeeded", numeric=True),
        Column("failed", "Failed", "row__visited__failed", "row.visited.failed", numeric=True),
        Column("drift", "Drift", "row__drift", "row.drift", numeric=True),
        Column("unsold", "Unsold", "row__unsold", "row.unsold", numeric=True),
    ),
    filters=(find("Find a site or state", "Site or state"),),
    mark="site-",
)
WORK = Listing(
    "kinds of work",
    columns=(
        Column("kind", "Kind", "kind"),
        Column("waiting", "Waiting", "due", "due", numeric=True),
        Column("oldest", "Oldest for", "oldest"),
        Column("claimed", "In a worker's hands", "claimed", numeric=True),
    ),
    filters=(find("Find a kind", "Kind"),),
    mark="work-",
)
LICENSES = Listing(
    "distributions",
    columns=(
        Column("name", "Distribution", "name"),
        Column("version", "Version", "version"),
        Column("license", "License", "license"),
    ),
    filters=(find("Find a distribution or license", "Distribution or license"),),
)


@operator_page
def system(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    found = system_get(actor=here.actor, now=here.now)
    run, heard = processes_shown(found.processes, now=here.now), sites_shown(found.sites, now=here.now)
    processes = PROCESSES.of(
        request,
        lambda query: saying(run, query["q"], lambda row: f"{row.kind} {row.row.host} {row.word}"),
    )
    sites = SITES.of(
        request,
        lambda query: saying(heard, query["q"], lambda row: f"{row.row.site.slug} {row.word}"),
    )
    waits = work_shown(found.work, now=here.now)
    work = WORK.of(request, lambda query: saying(waits, query["q"], lambda row: row.kind))
    context = {
        "crumbs": crumbs("Record", ("System", "")),
        "parts": parts_shown(found.parts),
        "processes": processes,
        "work": work,
        "sites": sites,
        "backup": found.backup,
        "versions": found.versions,
    }
    known = installed()
    shown = LICENSES.of(
        request, lambda query: saying(known, query["q"], lambda row: f"{row.name} {row.license}")
    )
    return list_page(request, "operator/system.html", shown, context, processes, sites, work)
