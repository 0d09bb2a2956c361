"""The menu: its places, and the current one.

An entry whose URL name does not resolve is left out, so a room can be absent without breaking the shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings
from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class NavItem:
    label: str
    url: str
    icon: str
    key: str = ""
    count: int | None = None
    current: bool = False


@dataclass(frozen=True)
class NavSection:
    title: str
    items: tuple[NavItem, ...]


@dataclass(frozen=True)
class Choice:
    """An entry of the project switcher."""

    label: str
    url: str
    note: str = ""
    current: bool = False


@dataclass(frozen=True)
class Crumb:
    label: str
    url: str = ""


@dataclass(frozen=True)
class Place:
    """A menu entry before its URL is known."""

    label: str
    url_name: str
    icon: str
    key: str = ""


TENANT_MENU: Mapping[str, Sequence[Place]] = {
    "": [
        Place("Home", "frontend:home", "home", "h"),
        Place("Workspaces", "frontend:workspaces", "stack-2", "w"),
        Place("Clusters", "frontend:clusters", "topology-star-3", "k"),
        Place("Environments", "frontend:environments", "terminal-2", "v"),
        Place("Jobs", "frontend:jobs", "list-details", "j"),
        Place("New workspace", "frontend:workspace_new", "plus", "n"),
    ],
    "Project": [
        Place("Usage and cost", "frontend:usage", "chart-bar", "u"),
        Place("Volumes", "frontend:volumes", "database", "d"),
        Place("Costs", "frontend:costs", "chart-bar", "c"),
        Place("Budgets", "frontend:budgets", "credit-card", "g"),
        Place("Limits", "frontend:limits", "gauge", "l"),
        Place("Requests", "frontend:requests", "checklist", "r"),
        Place("Members", "frontend:members", "users", "m"),
        Place("API tokens", "frontend:tokens", "key", "t"),
        Place("Data credentials", "frontend:data_credentials", "lock", "a"),
        Place("Audit log", "frontend:audit", "history", "e"),
    ],
    "Organization": [
        Place("Projects", "frontend:projects", "building", "p"),
        Place("Costs", "frontend:organization_costs", "chart-bar", "o"),
        Place("Statements", "frontend:invoices", "receipt-2", "i"),
        Place("Invoices", "frontend:organization_invoices", "file-invoice", "b"),
        Place("Budgets", "frontend:organization_budgets", "credit-card"),
        Place("Prices and credits", "frontend:organization_prices", "tags", "y"),
        Place("Reserved pools", "frontend:organization_pools", "lock"),
    ],
}

OPERATOR_MENU: Mapping[str, Sequence[Place]] = {
    "": [
        Place("Overview", "frontend:operator", "layout-dashboard", "o"),
        Place("Approvals", "frontend:operator_requests", "checklist", "a"),
        Place("Drift", "frontend:operator_drift", "git-compare", "d"),
    ],
    "Supply": [
        Place("Sites", "frontend:operator_sites", "server-2", "s"),
        Place("Capacity", "frontend:operator_capacity", "grid-dots", "c"),
        Place("Utilization", "frontend:operator_utilization", "chart-bar", "z"),
        Place("Reservations", "frontend:operator_reservations", "lock", "r"),
        Place("Flavors", "frontend:operator_flavors", "cpu", "f"),
        Place("GPU types", "frontend:operator_gpu_types", "components", "t"),
        Place("Cluster templates", "frontend:operator_cluster_templates", "topology-star-3", "x"),
        Place("Environments", "frontend:operator_environment_kinds", "terminal-2", "n"),
    ],
    "Tenants": [
        Place("Organizations", "frontend:operator_organizations", "building", "g"),
        Place("People", "frontend:operator_people", "users", "p"),
        Place("Limits", "frontend:operator_limits", "gauge", "l"),
        Place("Workspaces", "frontend:operator_workspaces", "stack-2", "w"),
        Place("Clusters", "frontend:operator_clusters", "topology-star-3", "k"),
    ],
    "Money": [
        Place("Usage", "frontend:operator_usage", "chart-bar", "u"),
        Place("Usage imports", "frontend:operator_usage_imports", "upload"),
        Place("Rate cards", "frontend:operator_rate_cards", "tags", "y"),
        Place("Invoices", "frontend:operator_invoices", "file-invoice", "i"),
        Place("Budgets", "frontend:operator_budgets", "credit-card", "b"),
        Place("Month close", "frontend:operator_closes", "checklist", "m"),
    ],
    "Record": [
        Place("System", "frontend:operator_system", "activity", "v"),
        Place("Audit log", "frontend:operator_audit", "history", "e"),
    ],
}

REFERENCE_MENU: Mapping[str, Sequence[Place]] = {
    "Reference": [Place("API", "api:docs", "book"), Place("Parts", "parts:index", "components")],
}


def last(place: Place) -> str:
    """`frontend:workspaces` is `workspaces`: how counts and hidden places are keyed."""
    return place.url_name.rpartition(":")[2]


def resolve(place: Place, scope: Mapping[str, object]) -> str:
    """The URL of a place, with the project or organization in scope where its address has one; else nothing."""
    return _address(place.url_name, tuple(scope.items()), settings.ROOT_URLCONF)


@lru_cache(4096)  # each page has the whole menu, and to find that there is no such address costs most
def _address(url_name: str, scope: tuple[tuple[str, object], ...], urlconf: str) -> str:
    known = dict(scope)
    for names in ((), ("project",), ("organization",)):
        if all(name in known for name in names):
            with suppress(NoReverseMatch):
                return reverse(url_name, urlconf, kwargs={name: known[name] for name in names} or None)
    return ""


def menu(
    *,
    path: str,
    operator: bool,
    scope: Mapping[str, object],
    counts: Mapping[str, int],
    hidden: frozenset[str] = frozenset(),
    signed_in: bool = True,
) -> tuple[NavSection, ...]:
    """The sections with at least one place. The longest URL that leads to `path` is the current one."""
    sections = (OPERATOR_MENU if operator else TENANT_MENU) if signed_in else {}
    found = [
        (title, [(p, url) for p in places if last(p) not in hidden and (url := resolve(p, scope))])
        for title, places in {**sections, **REFERENCE_MENU}.items()
    ]
    urls = [url for _, places in found for _, url in places]
    here = max((url for url in urls if leads_to(url, path)), key=len, default="")
    return tuple(
        NavSection(
            title,
            tuple(
                NavItem(p.label, url, p.icon, p.key, counts.get(last(p)), url == here) for p, url in places
            ),
        )
        for title, places in found
        if places
    )


def leads_to(url: str, path: str) -> bool:
    return path == url or (url != "/" and path.startswith(url if url.endswith("/") else f"{url}/"))
