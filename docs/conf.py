"""The documentation as a site (`make docs`). The pages stay plain Markdown: what a README links to is its part of the contents."""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "gpuaas"
author = "the gpuaas authors"
extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "gpuaas"
html_static_path = ["pictures"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]
HERE = Path(__file__).parent
LINK = re.compile(r"\]\(([\w./-]+\.md)\)")
PICTURE = re.compile(
    r'<picture><source [^>]*srcset="([^"]+)">\s*<img src="([^"]+)"\s+alt="([^"]*)"></picture>'
)
OUTSIDE = re.compile(r"\]\(((?:\.\./)+[\w./-]+\.md)[^)]*\)")


def contents(_: Sphinx, page: str, source: list[str]) -> None:
    """Adds a table of contents for each section of a README, of the pages of docs/ that it links to."""
    if page.rpartition("/")[2] != "README":
        return
    folder = (HERE / page).parent
    trees = []
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE):
        caption = section.partition("\n")[0] if page == root_doc else ""
        here = [link for link in LINK.findall(section) if (folder / link).resolve().is_relative_to(HERE)]
        if here:
            names = "\n".join(link.removesuffix(".md") for link in dict.fromkeys(here))
            title = f":caption: {caption}\n" if caption else ""
            trees.append(f"```{{toctree}}\n:hidden:\n{title}\n{names}\n```")
    source[0] += "\n\n" + "\n\n".join(trees) + "\n"


def neighbors(_: Sphinx, page: str, source: list[str]) -> None:
    """Links to Markdown that is no page, such as CONTRIBUTING.md, lead to the file itself."""

    def linked(found: re.Match[str]) -> str:
        is_page = ((HERE / page).parent / found[1]).resolve().is_relative_to(HERE)
        return found[0] if is_page else f"](path:{found[1]})"

    source[0] = OUTSIDE.sub(linked, source[0])


def pictures(_: Sphinx, __: str, source: list[str]) -> None:
    """What GitHub shows by the theme of the browser, the site shows by its own."""
    shown = "\n\n".join(
        f"```{{image}} \\{number}\n:alt: \\3\n:class: only-{theme}\n```"
        for number, theme in ((2, "light"), (1, "dark"))
    )
    source[0] = PICTURE.sub(shown, source[0])


def entrance(app: Sphinx, failed: Exception | None) -> None:
    """The address of the folder leads to the first page."""
    if failed is None and app.builder.format == "html":
        text = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=README.html"><title>gpuaas</title>\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("source-read", contents)
    app.connect("source-read", neighbors)
    app.connect("source-read", pictures)
    app.connect("build-finished", entrance)
