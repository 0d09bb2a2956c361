"""What a class says that may be chosen: asked for once however often it is pressed, answered after every death, published or dropped."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from gpuaas.catalog.models import Site
from gpuaas.clusters import services
from gpuaas.clusters.imports import parameters_import_answer, parameters_import_get
from gpuaas.clusters.models import Cluster, ClusterTemplate, ParametersImport, TemplateVersion
from gpuaas.clusters.reconcile import imports
from gpuaas.clusters.reconcile.imports import parameters_import
from gpuaas.clusters.selectors import definition_of
from gpuaas.clusters.services.imports import parameters_read
from gpuaas.clusters.tasks import parameters_import_ask, parameters_imports_due
from gpuaas.core import claims, clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import Conflict, GpuaasError, NotFound, StaleVersion
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.clusters.class_stage import BOOT, ZONE, Classes
from tests.clusters.stage import offered
from tests.lab.fixtures import LabSite

pytestmark = pytest.mark.django_db


@pytest.fixture
def classes(lab: LabSite) -> Classes:
    return Classes(lab)


@pytest.fixture
def template(as_olga: Actor, site: Site, classes: Classes) -> ClusterTemplate:
    """Its class says `zone` and `boot_seconds`, it itself only `zone`."""
    return classes.offered(as_olga, site)


def asked(olga: Actor, template: ClusterTemplate) -> ParametersImport:
    return services.parameters_import_request(actor=olga, template=template)


def answered(olga: Actor, template: ClusterTemplate) -> ParametersImport:
    asked(olga, template)
    assert parameters_import(template.pk)
    return parameters_import_get(actor=olga, template=template)


def actions() -> list[str]:
    found = AuditEntry.objects.filter(action__startswith="cluster_template.").order_by("pk")
    return list(found.values_list("action", flat=True))


def test_asked_answered_published(as_olga: Actor, template: ClusterTemplate) -> None:
    row = asked(as_olga, template)
    assert (row.requested_by, row.base.number, row.parameters) == ("olga", 1, None)
    assert parameters_imports_due() == 1
    assert parameters_import_ask(str(template.pk))
    row = parameters_import_get(actor=as_olga, template=template)
    answer = parameters_import_answer(row=row, now=clock.now())
    assert answer is not None
    assert answer.publishable
    assert [(one.parameter, one.kind, one.breaking) for one in answer.changes] == [
        ("boot_seconds", "new", False)
    ]
    made = services.parameters_import_publish(actor=as_olga, template=template, expected_version=row.version)
    assert made.number == 2
    assert set(definition_of(made).parameters["properties"]) == {"zone", "boot_seconds"}
    assert {**made.document, "parameters": None} == {**row.base.document, "parameters": None}
    assert made.created_by == "olga"
    assert actions()[-2:] == ["cluster_template.import", "cluster_template.version"]
    with pytest.raises(Conflict, match="already published as version 2"):
        services.parameters_import_publish(actor=as_olga, template=template)
    row = parameters_import_get(actor=as_olga, template=template)
    answer = parameters_import_answer(row=row, now=clock.now())
    assert row.published == made
    assert answer is not None
    assert answer.changes, "what it changed is still told"


def test_only_operators(as_alice: Actor, as_olga: Actor, template: ClusterTemplate) -> None:
    for service in (
        services.parameters_import_request,
        services.parameters_import_publish,
        services.parameters_import_drop,
    ):
        with pytest.raises(NotFound):
            service(actor=as_alice, template=template)
    with pytest.raises(NotFound):
        parameters_import_get(actor=as_alice, template=template)
    with pytest.raises(NotFound, match="request them first"):
        parameters_import_get(actor=as_olga, template=template)


def test_two_presses_are_one(as_olga: Actor, template: ClusterTemplate) -> None:
    first = asked(as_olga, template)
    second = asked(as_olga, template)
    assert (first.version, first.requested_at) == (second.version, second.requested_at)
    assert actions().count("cluster_template.import") == 1


@pytest.mark.django_db(transaction=True)
def test_two_presses_at_once(as_olga: Actor, template: ClusterTemplate) -> None:
    failed: list[Exception] = []

    def press() -> None:
        try:
            asked(as_olga, template)
        except Exception as error:  # noqa: BLE001  told below
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert ParametersImport.objects.get().version == 1
    assert actions().count("cluster_template.import") == 1


@pytest.mark.django_db(transaction=True)
def test_two_publish_at_once(as_olga: Actor, template: ClusterTemplate) -> None:
    answered(as_olga, template)
    told: list[object] = []

    def press() -> None:
        try:
            told.append(services.parameters_import_publish(actor=as_olga, template=template).number)
        except Conflict as error:
            told.append(error.detail["version"])
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [2] * 4
    assert template.versions.count() == 2


def test_a_task_that_died_is_succeeded_and_a_repeated_one_does_nothing(
    as_olga: Actor, template: ClusterTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = asked(as_olga, template)
    dead = claims.claim(ParametersImport, row.pk, now=clock.now(), seconds=claims.CLAIM_SECONDS)
    assert dead is not None
    assert parameters_imports_due() == 0
    assert not parameters_import(template.pk), "somebody is at it"
    later = clock.now() + timedelta(seconds=claims.CLAIM_SECONDS + 1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert parameters_imports_due() == 1
    assert parameters_import(template.pk)
    assert not parameters_import(template.pk), "nothing is due any more"
    assert not claims.release(dead, due_at=None, parameters={"type": "object"}), (
        "what the dead one found is dropped"
    )
    told: Any = ParametersImport.objects.get().parameters
    assert set(told["properties"]) == {"zone", "boot_seconds"}


def in_between(monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
    """After the site has answered and before its answer is written."""
    real = parameters_read

    def read(**given: Any) -> Any:
        found = real(**given)
        happens()
        return found

    monkeypatch.setattr(imports, "parameters_read", read)


def test_a_version_that_comes_while_the_site_is_asked(
    as_olga: Actor, template: ClusterTemplate, classes: Classes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks then asks with its settings: the answer to the earlier question is dropped."""

    def happens() -> None:
        services.template_version_add(actor=as_olga, template=template, document=classes.document())
        asked(as_olga, template)

    asked(as_olga, template)
    with monkeypatch.context() as patch:
        in_between(patch, happens)
        assert not parameters_import(template.pk)
    row = ParametersImport.objects.get()
    assert (row.base.number, row.parameters) == (2, None)
    assert parameters_import(template.pk)


def test_a_version_that_came_since_stands_against_publishing(
    as_olga: Actor, template: ClusterTemplate, classes: Classes
) -> None:
    answered(as_olga, template)
    services.template_version_add(actor=as_olga, template=template, document=classes.document())
    with pytest.raises(Conflict, match="a version newer than"):
        services.parameters_import_publish(actor=as_olga, template=template)
    row = parameters_import_get(actor=as_olga, template=template)
    answer = parameters_import_answer(row=row, now=clock.now())
    assert answer is not None
    assert answer.outdated
    assert not answer.publishable


def test_what_was_read_yesterday_is_not_published(
    as_olga: Actor, template: ClusterTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = answered(as_olga, template)
    assert row.read_at is not None
    tomorrow = row.read_at + timedelta(hours=24)
    monkeypatch.setattr(clock, "now", lambda: tomorrow)
    with pytest.raises(Conflict, match="more than a day old"):
        services.parameters_import_publish(actor=as_olga, template=template)
    answer = parameters_import_answer(row=row, now=tomorrow)
    assert answer is not None
    assert answer.old


def test_a_class_that_changes_is_read_when_it_is_asked_again(
    as_olga: Actor, template: ClusterTemplate, classes: Classes
) -> None:
    """What was looked at is what is published: whoever asked anew meanwhile makes an earlier look stale."""
    first = answered(as_olga, template)
    classes.tells(zone={"type": "string", "enum": ["b"], "default": "b"}, bootSeconds=BOOT)
    second = answered(as_olga, template)
    with pytest.raises(StaleVersion):
        services.parameters_import_publish(actor=as_olga, template=template, expected_version=first.version)
    made = services.parameters_import_publish(
        actor=as_olga, template=template, expected_version=second.version
    )
    assert definition_of(made).parameters["properties"]["zone"]["enum"] == ["b"]


def test_dropped_before_and_after_the_answer(
    as_olga: Actor, template: ClusterTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(as_olga, template)
    with monkeypatch.context() as patch:
        in_between(patch, lambda: services.parameters_import_drop(actor=as_olga, template=template))
        assert not parameters_import(template.pk)
    assert not ParametersImport.objects.exists()
    row = answered(as_olga, template)
    with pytest.raises(StaleVersion):
        services.parameters_import_drop(actor=as_olga, template=template, expected_version=row.version - 1)
    services.parameters_import_drop(actor=as_olga, template=template, expected_version=row.version)
    assert actions().count("cluster_template.import_drop") == 2
    assert TemplateVersion.objects.count() == 1
    with pytest.raises(NotFound, match="dropped"):
        services.parameters_import_publish(actor=as_olga, template=template)


def test_a_site_that_is_away_is_asked_some_times_and_then_says_what_to_do(
    as_olga: Actor, site: Site, template: ClusterTemplate, classes: Classes
) -> None:
    config = json.loads(classes.lab.kubeconfig)
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    away = json.dumps(config)
    Site.objects.filter(pk=site.pk).update(credentials=encrypt_json({"kubeconfig": away}))
    row = asked(as_olga, template)
    for attempt in range(1, imports.ATTEMPTS + 1):
        ParametersImport.objects.update(due_at=clock.now())
        assert not parameters_import(template.pk)
        row = ParametersImport.objects.get()
        assert row.attempts == attempt
        assert row.failure.endswith(imports.LATER if attempt < imports.ATTEMPTS else imports.AWAY)
    assert row.due_at is None
    Site.objects.filter(pk=site.pk).update(credentials=encrypt_json({"kubeconfig": classes.lab.kubeconfig}))
    assert answered(as_olga, template).failure == ""


def test_a_press_while_a_retry_waits_asks_at_once(as_olga: Actor, template: ClusterTemplate) -> None:
    asked(as_olga, template)
    later = clock.now() + timedelta(hours=1)
    ParametersImport.objects.update(due_at=later, attempts=3, failure="The site does not answer.")
    row = asked(as_olga, template)
    assert (row.attempts, row.failure) == (0, "")
    assert parameters_import(template.pk)


def test_what_cannot_be_read_says_why_and_what_to_do(
    as_olga: Actor, template: ClusterTemplate, classes: Classes
) -> None:
    asked(as_olga, template)
    classes.tells(zone=ZONE, size={"type": "number"})
    assert not parameters_import(template.pk)
    row = ParametersImport.objects.get()
    assert row.failure.startswith("parameters.size: the type must be one of")
    assert row.failure.endswith(imports.CHANGE)
    assert row.due_at is None
    classes.api.delete(f"{classes.path}")
    asked(as_olga, template)
    assert not parameters_import(template.pk)
    row = ParametersImport.objects.get()
    assert "no ClusterClass" in row.failure
    assert row.failure.endswith(imports.MISSING)


def test_a_driver_s_bug_is_told_and_ends_it(
    as_olga: Actor, template: ClusterTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> Any:
        raise KeyError("definitions")

    monkeypatch.setattr(imports, "parameters_read", broken)
    asked(as_olga, template)
    assert not parameters_import(template.pk)
    row = ParametersImport.objects.get()
    assert (row.due_at, "unexpected error (KeyError)" in row.failure) == (None, True)


def test_what_is_there_and_no_longer_fits_is_named(
    as_olga: Actor, alice: User, project: Project, template: ClusterTemplate, classes: Classes
) -> None:
    version = template.versions.get()
    for name, zone in (("old", "a"), ("fits", "b")):
        Cluster.objects.create(
            project=project,
            site=template.site,
            template_version=version,
            name=name,
            release="1.35.6",
            control_count=1,
            parameters={"zone": zone},
            lease_ends_at=clock.now() + timedelta(days=1),
            created_by=alice,
            created_at=clock.now(),
        )
    classes.tells(zone={"type": "string", "enum": ["b", "c"], "default": "b"}, bootSeconds=BOOT)
    row = answered(as_olga, template)
    answer = parameters_import_answer(row=row, now=clock.now())
    assert answer is not None
    (misfit,) = answer.misfits
    assert (misfit.name, misfit.project) == ("old", "weather-lm")
    assert "choose one of b, c" in misfit.reason
    assert answer.changes[0].breaking


def test_where_nothing_can_be_asked(as_olga: Actor, template: ClusterTemplate, site: Site) -> None:
    Site.objects.filter(pk=site.pk).update(enabled=False)
    with pytest.raises(Conflict, match="disabled"):
        asked(as_olga, template)
    ClusterTemplate.objects.filter(pk=template.pk).update(driver="sandbox")
    with pytest.raises(Conflict, match="sandbox do not offer"):
        asked(as_olga, template)
    words = {"name": "K", "kind": "kubernetes", "driver": "cluster-api"}
    bare = services.template_create(actor=as_olga, slug="bare", site=site, **words)
    Site.objects.filter(pk=site.pk).update(enabled=True)
    with pytest.raises(GpuaasError, match="first version"):
        asked(as_olga, bare)


def test_the_sandbox_has_nothing_of_the_kind(as_olga: Actor, site: Site) -> None:
    with pytest.raises(Conflict, match="do not offer"):
        asked(as_olga, offered(as_olga, site))
