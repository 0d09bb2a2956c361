"""Small files in the home of an environment: list, make, remove, download and upload."""

import uuid
from typing import Any

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.errors import TooLarge
from gpuaas.api.fields import Input, Output, QuerySwitch, Text
from gpuaas.api.schema import operation
from gpuaas.api.v1.environments.views import EnvironmentView
from gpuaas.core.streams import attached
from gpuaas.environments.home import FILE, FILE_MOST, FOLDER, LINK, OTHER, PATH_MOST, path_read
from gpuaas.environments.services import files

MIB = FILE_MOST >> 20


class _Path(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        words = "In the home, without a slash in front, such as `data/notes.txt`."
        super().__init__(max_length=PATH_MOST, trim_whitespace=False, help_text=words, **kwargs)


class FolderQuery(Input):
    path = _Path(required=False, default="", allow_blank=True)


class FileQuery(Input):
    path = _Path()


class FileMoveInput(Input):
    to = Text(
        max_length=PATH_MOST, trim_whitespace=False, help_text="The new path in the home, with its name."
    )


class FileWriteQuery(FileQuery):
    overwrite = QuerySwitch(required=False, default=False, help_text="Whether a file may be replaced.")


class FileEntryOutput(Output):
    name = serializers.CharField(help_text="With a mark in place of what is no UTF-8.")
    kind = serializers.ChoiceField(
        choices=[FOLDER, FILE, LINK, OTHER],
        help_text="Of what a link leads to; `link` where that is not there.",
    )
    size = serializers.IntegerField(help_text="In bytes.")
    changed_at = serializers.DateTimeField()
    is_link = serializers.BooleanField()
    named = serializers.BooleanField(help_text="Whether it can be asked for here: its name is UTF-8.")


class FolderOutput(Output):
    path = serializers.CharField(allow_blank=True, help_text="Empty for the home.")
    cut = serializers.BooleanField(help_text="Whether there is more in it than is listed.")
    entries = FileEntryOutput(many=True)


class FileRenderer(BaseRenderer):
    """Only for content negotiation: the view writes its answer itself, and errors stay JSON."""

    media_type = "application/octet-stream"
    format = "file"

    def render(self, data: object, *args: object, **kwargs: object) -> bytes:
        return JSONRenderer().render(data)


class FilesView(EnvironmentView):
    @operation(
        "environment_file_list",
        "List a folder of an environment's home",
        query=FolderQuery,
        answer=FolderOutput,
        also=(409, 502, 503),
    )
    def get(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """Folders first, by name; 1,000 entries at most, and `cut` says whether there are more. 409 unless the environment runs;
        403 for those who may not enter it by SSH. The same holds for all operations of files."""
        found = files.folder_list(actor=self.actor, environment=self.entered(), **self.params)
        return Response(FolderOutput(found).data)

    @operation(
        "environment_folder_create",
        "Create a folder in an environment's home",
        query=FileQuery,
        also=(502, 503),
    )
    def put(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """409 where something of that name is there already."""
        files.folder_make(actor=self.actor, environment=self.entered(), **self.params)
        return Response(status=204)

    @operation(
        "environment_file_move",
        "Rename or move a file of an environment's home",
        query=FileQuery,
        body=FileMoveInput,
        also=(502, 503),
    )
    def patch(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """A file, a link or a folder. 409 where something of the new name is there already."""
        to = self.input(FileMoveInput)["to"]
        files.file_move(actor=self.actor, environment=self.entered(), to=to, **self.params)
        return Response(status=204)

    @operation(
        "environment_file_delete",
        "Remove a file of an environment's home",
        query=FileQuery,
        also=(502, 503),
    )
    def delete(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """A file, a link, or a folder that is empty: 409 for one that is not."""
        files.file_remove(actor=self.actor, environment=self.entered(), **self.params)
        return Response(status=204)


class FileContentView(EnvironmentView):
    renderer_classes = [FileRenderer, JSONRenderer]
    longest_body = None

    @operation(
        "environment_file_get",
        "Download a file of an environment's home",
        query=FileQuery,
        file="any",
        also=(409, 502, 503),
    )
    def get(self, request: Request, project: str, environment: uuid.UUID) -> HttpResponse:
        """409 for one of more than 16 MiB: copy it by scp."""
        found = self.entered()
        name = path_read(self.params["path"]).name
        return attached(
            request._request,
            lambda: files.file_read(actor=self.actor, environment=found, **self.params),
            name=name,
        )

    @operation(
        "environment_file_put",
        "Upload a file into an environment's home",
        query=FileWriteQuery,
        sends="any",
        also=(502, 503),
    )
    def put(self, request: Request, project: str, environment: uuid.UUID) -> Response:
        """The body is its content as it is, 16 MiB at most. It is there whole or not at all. 409 where a file of that name is there
        already, unless `overwrite` is true; its mode is kept then."""
        found = self.entered()
        if (request.content_type or "").startswith("multipart/"):
            raise UnsupportedMediaType(
                request.content_type, "send the content as it is, without a form around it"
            )

        def read(most: int) -> bytes:
            content: bytes = request._request.read(most)
            if len(content) > FILE_MOST:
                raise TooLarge(f"a file has at most {MIB} MiB: copy a larger one by scp")
            return content

        files.file_write(actor=self.actor, environment=found, read=read, **self.params)
        return Response(status=204)
