"""Imports of usage on the operators' pages: a question that says what it brings, a list, a page, taken back."""

import re
from base64 import b64encode
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from billing.files import file_name
from billing.models import InvoiceLine
from frontend.forms.usage_imports import LARGEST
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.import_progress import import_told
from gpuaas.metering.models import ImportProgress, ImportStep, UsageImport, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.billing.test_files import USAGE
from tests.billing.test_import import OCTOBER, row
from tests.frontend.markup import words
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
HOME = reverse("frontend:operator_usage_imports")
NEW = reverse("frontend:operator_usage_import_new")


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


def upload(client: Client, *rows: str, **more: str) -> tuple[int, str]:
    content = "\n".join([USAGE, *rows]).encode()
    answer = client.post(NEW, {"file": SimpleUploadedFile("old.csv", content), **more})
    return answer.status_code, answer.content.decode()


def again(page: str) -> dict[str, str]:
    """What the button of the question sends."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))


def test_an_upload_is_previewed_imported_listed_and_taken_back(
    olga_at: Client, workspace: Workspace, h100: Flavor
) -> None:
    assert "No imports yet" in olga_at.get(HOME).content.decode()
    interval_make(workspace, h100, utc("2026-10-05 08:00:00"), utc("2026-10-05 09:30:00"))
    status, page = upload(olga_at, row("a"), row("b"), name="old <portal>", overlap_file="on")
    assert status == 200
    assert "2 of 2 rows would be imported as" in page
    for text in ("old &lt;portal&gt;", "October 2026", "weather-lm", "8.0", "1.5"):
        assert text in page
    assert not UsageImport.objects.exists()
    sent = again(page)
    assert (sent["sure"], sent["overlap_file"], sent["name"]) == ("1", "on", "old &lt;portal&gt;")
    made = olga_at.post(NEW, sent | {"name": "old <portal>"})
    batch = UsageImport.objects.get()
    assert batch.file == "old.csv"
    home = reverse("frontend:operator_usage_import", args=[batch.pk])
    assert (made.status_code, made["Location"]) == (302, home)
    assert "old &lt;portal&gt;</a" in olga_at.get(HOME).content.decode()
    shown = olga_at.get(home).content.decode()
    assert "All 2 intervals of old &lt;portal&gt; are deleted" in shown
    known = olga_at.post(NEW, sent, follow=True).content.decode()
    assert "All 2 rows are already known or empty. Nothing was imported." in known
    taken = olga_at.post(reverse("frontend:operator_usage_import_take_back", args=[batch.pk]), follow=True)
    assert "was taken back. Its usage is deleted." in taken.content.decode()
    assert "Taken back" in olga_at.get(HOME).content.decode()
    assert UsageInterval.objects.count() == 1


def test_cancel_leads_back_to_the_form_as_it_was_filled_in(olga_at: Client, workspace: Workspace) -> None:
    _, page = upload(olga_at, row("a"), name="old portal", overlap_file="on", reopen="on")
    back = words(olga_at.post(NEW, again(page) | {"back": "1"}))
    form = back[back.index(f'action="{NEW}"') :]
    for kept in ('value="old portal"', "Choose old.csv again, or another file."):
        assert kept in form
    ticked = {
        name
        for name in ("overlap_file", "overlap_imports", "overlap_metered", "reopen")
        if is_ticked(form, name)
    }
    assert ticked == {"overlap_file", "reopen"}
    assert not UsageImport.objects.exists()


def is_ticked(form: str, name: str) -> bool:
    return " checked" in re.findall(rf'<input[^>]* name="{name}"[^>]*>', form)[0]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("may.csv", "may.csv"),
        ("März 2026.csv", "März 2026.csv"),
        ("C:\\old\\may.csv", "may.csv"),
        ("../../etc/passwd", "passwd"),
        ("a\x00b\n.csv", "ab.csv"),
        ("€" * 300 + ".csv", "€" * 56 + ".csv"),
        ("..", "usage.csv"),
        ("", "usage.csv"),
    ],
)
def test_a_file_keeps_its_own_name(olga_at: Client, workspace: Workspace, sent: str, kept: str) -> None:
    content = b64encode("\n".join([USAGE, row("a")]).encode()).decode()
    assert olga_at.post(NEW, {"content": content, "called": sent, "sure": "1"}).status_code in {302, 422}
    batch = UsageImport.objects.filter().first()
    if "\x00" in sent:  # no field of a form takes it
        assert batch is None
        assert file_name(sent) == kept
        return
    assert batch is not None
    assert (batch.file, batch.name) == (kept, kept)


def test_what_is_refused_stands_beside_the_file(olga_at: Client, workspace: Workspace) -> None:
    for rows, said in (
        (
            [row("a"), row("b")],
            "old.csv:3: the same workspace, meter and GPUs are counted at the same time by line 2",
        ),
        ([row("a", project="nobody")], "old.csv:2: there is no project nobody."),
        ([row("a", start="2003-10-05T10:00:00Z")], "old.csv:2: this row starts in October 2003"),
        (["x" * LARGEST], "The file is larger than 1,000,000 bytes."),
    ):
        status, page = upload(olga_at, *rows)
        assert (status, said in page) == (422, True), page
    for sent in (
        {},
        {"content": "%"},
        {"content": "é"},
        {"content": b64encode(b"\x00\xff").decode(), "sure": "1"},
    ):
        assert olga_at.post(NEW, sent).status_code == 422
    status, page = upload(olga_at, row("a"), name="x" * 101)
    assert (status, "at most 100 characters" in page) == (422, True)
    assert not UsageInterval.objects.exists()


def test_what_an_invoice_rests_on_has_no_button(
    olga_at: Client, workspace: Workspace, as_olga: Actor
) -> None:
    olga_at.post(NEW, again(upload(olga_at, row("a"))[1]))
    month_close(as_olga, OCTOBER, accept="no price")
    number = InvoiceLine.objects.values_list("invoice__number", flat=True)[0]
    batch = UsageImport.objects.get()
    page = olga_at.get(reverse("frontend:operator_usage_import", args=[batch.pk])).content.decode()
    assert "This import cannot be taken back" in page
    assert f"{number} rests on it. Correct what was invoiced by credit notes" in page
    assert "take-back" not in page
    back = reverse("frontend:operator_usage_import_take_back", args=[batch.pk])
    assert f"{number} rests on it" in olga_at.post(back, follow=True).content.decode()
    assert UsageInterval.objects.count() == 1


def test_the_file_is_asked_for(olga_at: Client, workspace: Workspace) -> None:
    """It is needed, and the page says so; with the answer to the question it comes from the preview."""
    page = olga_at.get(HOME).content.decode()
    label = page.split('for="id_file"', 1)[1].split("</label>", 1)[0]
    assert "optional" not in label
    answer = olga_at.post(NEW, {"name": "no file"})
    assert answer.status_code == 422
    assert answer.content.decode().count("Choose a usage.csv.") == 1


def test_an_import_whose_process_was_killed_is_shown_for_a_day(olga_at: Client) -> None:
    now = clock.now()
    row = ImportProgress.objects.create(
        file="old.csv", requested_by="oskar", step=4, rows=312_000, began_at=now, seen_at=now
    )
    page = words(olga_at.get(HOME))
    assert "old.csv, by oskar" in page
    assert "Step 4 of 5, since <time" in page
    assert "312,000 rows are read." in page
    assert "If its process has ended" not in page
    ImportProgress.objects.update(seen_at=now - timedelta(minutes=2))
    assert "If its process has ended, nothing was imported." in words(olga_at.get(HOME))
    ImportProgress.objects.update(seen_at=now - timedelta(days=2))
    assert "Import under way" not in words(olga_at.get(HOME))
    with import_told(file="new.csv", by="olga"):
        assert "new.csv, by olga" in words(olga_at.get(HOME))
    assert not ImportProgress.objects.filter(file="new.csv").exists()
    assert row.step == ImportStep.WRITE
