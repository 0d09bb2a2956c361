"""What is one thing stands once: a constant, an enumeration, a function of the same name and content."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_house import ROOT, sources

# Of the same name and value by chance: each place chooses its own.
OWN = {
    "A size that each list, batch or answer chooses for itself": {
        "BATCH", "MOST", "NAMED", "PAGE", "PARALLEL", "ROWS", "SHOWN", "SHARED_MOST",
    },
    "What a file calls itself, its folder or its part of the document": {"HERE", "SQL", "TAG"},
    "A short name within a file": {"C", "CREATE", "M", "P", "R", "S"},
    "Settings of a deployment, each file whole": {"ENCRYPTION_KEYS", "MAILS_ENABLED"},
    "Of another state machine each": {"CHANGING", "LIVE", "STAYING"},
    "A register of its own": {"SHARED", "SHARED_LOCK"},
    "By chance: a word of two rooms, or of the lab or the sandbox, which stand apart from what they play": {
        "ADMISSION", "MACHINE", "PORTAL", "PRODUCT",
    },
}  # fmt: skip
SMALL = 3  # statements: a function of fewer may say the same by chance


def product() -> list[Path]:
    return [path for path in sources() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "tests"]


def constants(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if name.strip("_").isupper():
            yield name.strip("_"), value


def statements(function: ast.FunctionDef) -> list[ast.stmt]:
    """Without the docstring."""
    return function.body[1:] if ast.get_docstring(function) else function.body


def size(body: list[ast.stmt]) -> int:
    return sum(isinstance(node, ast.stmt) for statement in body for node in ast.walk(statement))


def twice(found: dict[tuple[str, str], list[str]]) -> dict[str, list[str]]:
    return {name: places for (name, _), places in found.items() if len(places) > 1}


def test_a_constant_stands_once() -> None:
    chosen = set().union(*OWN.values())
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in product():
        for name, value in constants(ast.parse(path.read_text())):
            if name not in chosen:
                found[name, ast.dump(value)].append(str(path.relative_to(ROOT)))
    assert twice(found) == {}


def test_an_enumeration_stands_once() -> None:
    """Of the same name and members, in whatever order."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in product():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(is_enumeration(base) for base in node.bases):
                members = sorted(ast.dump(each) for each in node.body if isinstance(each, ast.Assign))
                found[node.name, str(members)].append(str(path.relative_to(ROOT)))
    assert found
    assert twice(found) == {}


def is_enumeration(base: ast.expr) -> bool:
    return ast.unparse(base).endswith(("Enum", "TextChoices", "IntegerChoices"))


def test_a_function_stands_once() -> None:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in product():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and size(statements(node)) >= SMALL:
                body = ast.dump(ast.Module(statements(node), []))
                found[node.name, body + ast.dump(node.args)].append(str(path.relative_to(ROOT)))
    assert twice(found) == {}
