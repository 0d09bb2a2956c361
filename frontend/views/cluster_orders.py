"""Ordering a cluster: choose a template, fill in the form that its schema makes, with the plan beside it."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from billing.clusters import PricedPlan, cluster_plan_priced
from frontend.components import AnswerPanel
from frontend.forms import refuse, sentence_of
from frontend.forms.clusters import OrderForm
from frontend.forms.lease import typed_only
from frontend.frame import draw_page, number_of, posted
from frontend.lists import Column, Listing, find, list_page, named
from frontend.nav import Crumb
from frontend.place import ProjectPlace, project_action, project_page
from frontend.presenters import cluster_answer
from frontend.presenters.effect import tell_beside
from frontend.presenters.held import url_of
from frontend.presenters.sleep import after_lease
from frontend.views.requests import AGAIN
from frontend.views.usage import crumbs
from gpuaas.clusters.models import Cluster, ClusterTemplate, TemplateVersion
from gpuaas.clusters.selectors import (
    definition_of,
    name_is_taken,
    template_get_for,
    template_version_get,
    templates_for,
)
from gpuaas.clusters.services import cluster_order
from gpuaas.clusters.states import LIVE, TEMPLATE_LOOKS, TemplateState
from gpuaas.core.errors import Conflict, GpuaasError, Invalid
from tenants.roles import Permission

OFFERS = Listing(
    "templates",
    columns=(
        Column("name", "Template", "name", "0.name"),
        Column("slug", value="0.slug"),
        Column("summary", value="0.summary"),
        Column("kind", "Kind", "kind", "0.kind"),
        Column("site", "Site", "site__slug", "0.site.slug"),
        Column("offer", "Offer", "state", "1.label"),
    ),
    filters=(find(),),
)


@project_page(Permission.WORKSPACE_CREATE)
def choose(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    known = templates_for(**here.given)
    shown = OFFERS.of(
        request,
        lambda query: named(known, query["q"], "name", "slug", "summary"),
        lambda rows: [(row, TEMPLATE_LOOKS[TemplateState(row.state)], _order_url(here, row)) for row in rows],
    )
    context = {
        "list_url": reverse("frontend:clusters", args=[here.project.slug]),
        "crumbs": _trail(here, Crumb("New")),
    }
    return list_page(request, "clusters/choose.html", shown, context)


@project_page(Permission.WORKSPACE_CREATE)
def new(request: HttpRequest, here: ProjectPlace, template: str) -> HttpResponse:
    found = template_get_for(**here.given, slug=template)
    version = _version(request, found)
    definition = definition_of(version)
    form = OrderForm(posted(request), definition=definition, number=version.number)
    if form.is_valid() and (made := _order_or_refuse(here, version, form)):
        return redirect(url_of(made))
    slug = here.project.slug
    context = {
        "form": form,
        "template": found,
        "version": version,
        "panel": _panel(here, version, form),
        "after_lease": after_lease(),
        "answer_url": reverse("frontend:cluster_answer", args=[slug, found.slug]),
        "order_url": _order_url(here, found),
        "crumbs": _trail(here, Crumb("New", reverse("frontend:cluster_new", args=[slug])), Crumb(found.name)),
    }
    return draw_page(request, "clusters/order.html", context)


def _version(request: HttpRequest, template: ClusterTemplate) -> TemplateVersion:
    """The one whose form is before the reader, also when a newer one came meanwhile."""
    return template_version_get(template=template, number=number_of(request.POST.get("number", "")))


def _order_or_refuse(here: ProjectPlace, version: TemplateVersion, form: OrderForm) -> Cluster | None:
    try:
        return cluster_order(
            **here.given,
            template=version.template.slug,
            number=version.number,
            name=form.cleaned_data["name"],
            document=form.document,
            lease_ends_at=form.lease_end(now=here.now),
        )
    except (Invalid, Conflict) as error:
        duplicate = _pressed_twice(here, version, form, error)
        if duplicate is None:
            refuse(form, error, fields=_fields_of(here, version, form))
        return duplicate


def _fields_of(here: ProjectPlace, version: TemplateVersion, form: OrderForm) -> dict[str, str]:
    """Beside which field a limit of each resource is told; none where the order could not be planned."""
    try:
        return form.fields_of(_planned(here, version, form).plan.draft)
    except GpuaasError:
        return {}


def _planned(here: ProjectPlace, version: TemplateVersion, form: OrderForm) -> PricedPlan:
    return cluster_plan_priced(
        **here.given,
        template=version.template.slug,
        number=version.number,
        document=form.document,
        name=form.cleaned_data.get("name") if form.is_bound else None,
        lease_ends_at=form.lease_end(now=here.now) if form.is_bound else None,
    )


def _pressed_twice(
    here: ProjectPlace, version: TemplateVersion, form: OrderForm, error: GpuaasError
) -> Cluster | None:
    """The name is taken by what this person ordered by the same form a moment ago: a second press is the first one."""
    if error.detail.get("field") != "name":
        return None
    rows = Cluster.objects.select_related("project").filter(
        project=here.project,
        name=form.cleaned_data["name"],
        created_by=here.user,
        created_at__gte=here.now - AGAIN,
        state__in=LIVE,
        template_version=version,
    )
    found = rows.first()
    if found is None:
        return None
    counts = {pool.name: pool.count for pool in found.pools.all()}
    asked = {name: pool.get("count", counts.get(name)) for name, pool in form.document["pools"].items()}
    return found if asked == counts else None


@project_action(Permission.WORKSPACE_CREATE)
def answer_now(request: HttpRequest, here: ProjectPlace, template: str) -> HttpResponse:
    found = template_get_for(**here.given, slug=template)
    version = _version(request, found)
    form = OrderForm(request.POST, definition=definition_of(version), number=version.number)
    panel = _panel(here, version, form)
    typed_only(form, "name")
    context = {"panel": panel, "form": form, "after_lease": after_lease()}
    return render(request, "clusters/_answer.html", context)


def _panel(here: ProjectPlace, version: TemplateVersion, form: OrderForm) -> AnswerPanel:
    """Nothing is said of a name that is not written yet."""
    name = _name_judged(here, form) if form.is_bound else ""
    wrong = {name: errors for name, errors in form.errors.items() if name != "name" or form.data.get(name)}
    if wrong:
        field, errors = next(iter(wrong.items()))
        label = f"{form[field].label}: " if field in form.fields else ""
        return cluster_answer.waiting(f"{label}{errors[0]}")
    try:
        priced = _planned(here, version, form)
    except Invalid as error:
        if form.is_bound:
            refuse(form, error)
        return cluster_answer.waiting(sentence_of(error.message))
    except Conflict as error:
        return cluster_answer.refused(sentence_of(error.message))
    if not priced.plan.fits:
        tell_beside(form, priced.plan.admission, form.fields_of(priced.plan.draft))
    return cluster_answer.panel_of(priced, now=here.now, named=bool(name))


def _name_judged(here: ProjectPlace, form: OrderForm) -> str:
    """The name, which is refused beside its field where it is taken, whatever else is wrong."""
    form.is_valid()
    name: str = form.cleaned_data.get("name", "")
    if name and name_is_taken(project=here.project, name=name):
        form.add_error("name", f"The project {here.project.slug} already has a cluster called {name}.")
    return name


def _order_url(here: ProjectPlace, template: ClusterTemplate) -> str:
    return reverse("frontend:cluster_order", args=[here.project.slug, template.slug])


def _trail(here: ProjectPlace, *rest: Crumb) -> tuple[Crumb, ...]:
    return (*crumbs(here, "Clusters", reverse("frontend:clusters", args=[here.project.slug])), *rest)
