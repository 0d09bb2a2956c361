"""Whether the portal itself works: its processes, what waits for them, how each site is heard, what it is made of."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from frontend.presenters.operator.system import parts_shown, processes_shown, sites_shown, work_shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.system.selectors import system_get
from gpuaas.system.versions import installed


@operator_page
def system(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    found = system_get(actor=here.actor, now=here.now)
    context = {
        "crumbs": crumbs("Record", ("System", "")),
        "parts": parts_shown(found.parts),
        "processes": processes_shown(found.processes, now=here.now),
        "work": work_shown(found.work, now=here.now),
        "sites": sites_shown(found.sites, now=here.now),
        "backup": found.backup,
        "versions": found.versions,
        "installed": installed(),
    }
    return render(request, "operator/system.html", context)
