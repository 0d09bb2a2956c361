"""The page of a notebook, and its address."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import include, path

from frontend.place import ProjectPlace, row_doors
from gpuaas.core.rows import first_of
from gpuaas.urls import urlpatterns as portal
from tenants.roles import Permission
from tests.lifecycle.toy.life import NOTEBOOK, driver_at, notebook_require
from tests.lifecycle.toy.models import ALLOWED, Notebook, NotebookStep

PAGE = """{% extends "base.html" %}{% load console %}{% block title %}{{ row }}{% endblock %}{% block content %}
{% state look.tone look.label %} {{ address }}
<ol>{% for step in steps %}<li>{{ step.label }}: {{ step.get_state_display }}</li>{% endfor %}</ol>
{% for verb in verbs %}<button name="{{ verb }}">{{ verb }}</button>{% endfor %}{% endblock %}"""


def _found(here: ProjectPlace, pk: UUID, *, permission: Permission) -> Notebook:
    row = first_of(NOTEBOOK.rows.filter(pk=pk), "notebook")
    notebook_require(here.actor, row, permission)
    return row


page, _action = row_doors(_found, "pk")


@page(Permission.WORKSPACE_VIEW)
def detail(request: HttpRequest, here: ProjectPlace, row: Notebook) -> HttpResponse:
    driver, spec = driver_at(row)
    steps = NotebookStep._default_manager.filter(operation__notebook=row).order_by("operation", "position")
    verbs = [verb for verb in ALLOWED if NOTEBOOK.may(row, verb)]
    shown = {"row": row, "look": NOTEBOOK.look(row), "steps": steps, "verbs": verbs}
    shown["address"] = driver.address(spec)
    return HttpResponse(engines["django"].from_string(PAGE).render(shown, request))


urlpatterns = [*portal, path("", include(([path("p/<slug:project>/books/<uuid:pk>/", detail)], "frontend")))]
