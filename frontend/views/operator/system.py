"""Whether the portal itself works: its processes, what waits for them, how each site is heard, what it is made of."""

from django.http import HttpRequest, HttpResponseBase

from frontend.lists import Column, Listing, find, list_page, saying
from frontend.presenters.operator.system import parts_shown, processes_shown, sites_shown, work_shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.system.selectors import system_get
from gpuaas.system.versions import installed

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
    context = {
        "crumbs": crumbs("Record", ("System", "")),
        "parts": parts_shown(found.parts),
        "processes": processes_shown(found.processes, now=here.now),
        "work": work_shown(found.work, now=here.now),
        "sites": sites_shown(found.sites, now=here.now),
        "backup": found.backup,
        "versions": found.versions,
    }
    known = installed()
    shown = LICENSES.of(
        request, lambda query: saying(known, query["q"], lambda row: f"{row.name} {row.license}")
    )
    return list_page(request, "operator/system.html", shown, context)
