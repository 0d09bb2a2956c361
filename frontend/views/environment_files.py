"""Small files in the home of an environment: its folders, what is downloaded and uploaded, and what is made and removed."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from frontend.forms import sentence_of
from frontend.forms.environments import FolderForm, MoveForm, UploadForm
from frontend.frame import Refusals, done, refusals_on, refusals_shown
from frontend.lists import Column, Listing, find, list_page
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters import held
from frontend.views.environments import ACCESS, environment_action, environment_page, trail
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound, Permanent, Unavailable
from gpuaas.core.streams import attached
from gpuaas.environments.home import FILE_MOST, Entry, Path, path_read
from gpuaas.environments.models import Environment
from gpuaas.environments.services import files

FILES = Listing(
    "files",
    columns=(
        Column("name", "Name", "name", "entry.name"),
        Column("size", "Size", "size", "entry.size", numeric=True),
        Column("changed_at", "Changed", "changed_at", "entry.changed_at"),
        Column("remove", "Actions", value=None, quiet=True),
    ),
    filters=(find("Find in this folder", "Name"),),
)


def _draw(
    request: HttpRequest, here: ProjectPlace, row: Environment, moved: MoveForm | None = None, **more: Any
) -> HttpResponseBase:
    """The site is asked; what it refuses is a page of its own. `moved`: of the path of the address, which was not moved."""
    asked = _path(request)
    path = asked if moved is None else str(_folder(path_read(asked)))
    found = files.folder_list(actor=here.actor, environment=row, path=path)
    at = path_read(path)
    inside = f"{at}/" if at.parts else ""
    shown = FILES.of(
        request,
        found.entries,
        lambda rows: [
            _row(
                row, each, number, at=(name := f"{inside}{each.name}"), moved=moved if name == asked else None
            )
            for number, each in enumerate(rows, 1)
        ],
        page_url=_url(row, "files"),
    )
    context = {
        "environment": row,
        "folder": found,
        "most": FILE_MOST >> 20,
        "ways": [
            (part, _url(row, "files", str(Path(at.parts[:end])))) for end, part in enumerate(at.parts, 1)
        ],
        "home_url": _url(row, "files"),
        "upload_url": _url(row, "file_upload", path),
        "folder_url": _url(row, "folder_new", path),
        "upload_form": UploadForm(auto_id="upload_%s"),
        "folder_form": FolderForm(auto_id="folder_%s"),
        "crumbs": trail(here, Crumb(row.name, held.url_of(row)), Crumb("Files")),
        **more,
    }
    return list_page(request, "environments/files.html", shown, context, refused=moved is not None)


show = environment_page(ACCESS)(_draw)


@environment_page(ACCESS)
def download(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
    path = _path(request)
    name = path_read(path).name
    return attached(request, lambda: files.file_read(actor=here.actor, environment=row, path=path), name=name)


@environment_action(ACCESS)
def upload(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponseBase:
    """One that is refused does not keep the others from it."""
    form = UploadForm(request.POST, request.FILES, auto_id="upload_%s")
    around = _url(row, "files", _path(request))
    if not form.is_valid():
        return _draw(request, here, row, upload_form=form)
    sent, overwrite, names = form.cleaned_data["file"], form.cleaned_data["overwrite"], []
    with _away(request):
        for file in sent:
            with _beside(form, file.name if len(sent) > 1 else ""):
                path = _inside(request, file.name)
                files.file_write(
                    actor=here.actor, environment=row, path=path, read=file.read, overwrite=overwrite
                )
                names.append(file.name)
    if names:
        messages.success(request, f"{names[0] if len(names) == 1 else f'{len(names)} files'} uploaded.")
    return _draw(request, here, row, upload_form=form) if form.errors else redirect(around)


def _beside(form: UploadForm, name: str) -> Refusals:
    """What is refused, with the name of its file."""

    def tell(error: GpuaasError) -> None:
        form.add_error("file", sentence_of(f"{error.message}: {name}" if name else error.message))

    return Refusals(tell, Invalid, Conflict)


@environment_action(ACCESS)
def folder(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponseBase:
    form = FolderForm(request.POST, auto_id="folder_%s")
    around = _url(row, "files", _path(request))
    if form.is_valid():
        with _away(request), refusals_on(form, Invalid, Conflict, fields={"path": "name"}, default="name"):
            name = form.cleaned_data["name"]
            if "/" in name:
                raise Invalid.field("path", "a name has no slash: make one folder in the other")
            files.folder_make(actor=here.actor, environment=row, path=_inside(request, name))
            return done(request, f"Folder {name} created.", around)
    return _draw(request, here, row, folder_form=form) if form.errors else redirect(around)


@environment_action(ACCESS)
def move(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponseBase:
    path, form = path_read(_path(request)), MoveForm(request.POST)
    if form.is_valid():
        with _away(request), refusals_on(form, Conflict, Invalid, NotFound, default="to"):
            to = form.cleaned_data["to"]
            files.file_move(actor=here.actor, environment=row, path=str(path), to=to)
            return done(request, f"{path.name} is now {to}.", _around(row, path))
    return _draw(request, here, row, moved=form) if form.errors else redirect(_around(row, path))


@environment_action(ACCESS)
def remove(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponse:
    path = path_read(_path(request))
    with _away(request), refusals_shown(request, Conflict, NotFound):
        files.file_remove(actor=here.actor, environment=row, path=str(path))
        return done(request, f"{path.name} removed.", _around(row, path))
    return redirect(_around(row, path))


def _around(row: Environment, path: Path) -> str:
    return _url(row, "files", str(_folder(path)))


def _folder(path: Path) -> Path:
    return Path(path.parts[:-1])


def _away(request: HttpRequest) -> Refusals:
    """What the site does not do, in a message: one comes back to the folder, not to the home."""
    return refusals_shown(request, Permanent, Unavailable)


def _path(request: HttpRequest) -> str:
    return request.GET.get("path", "")


def _inside(request: HttpRequest, name: str) -> str:
    at = _path(request)
    return f"{at}/{name}" if at else name


def _row(row: Environment, entry: Entry, number: int, *, at: str, moved: MoveForm | None) -> dict[str, Any]:
    names = {"folder_url": "files", "file_url": "file", "move_url": "file_move", "remove_url": "file_remove"}
    urls = {key: _url(row, name, at) for key, name in names.items()}
    form = moved or MoveForm(initial={"to": at})
    form.auto_id = f"move_{number}_%s"
    return {"entry": entry, "move_form": form, "move_id": f"move-{number}", **urls}


def _url(row: Environment, name: str, path: str = "") -> str:
    url = reverse(f"frontend:environment_{name}", args=[row.project.slug, row.pk])
    return f"{url}?{urlencode({'path': path})}" if path else url
