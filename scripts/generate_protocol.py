"""Write the types of the adapter protocol from its JSON Schema: models, and plain answers.

    python scripts/generate_protocol.py            write them
    python scripts/generate_protocol.py --check    exit 1 with one line when they are stale

datamodel-code-generator makes the models. What it writes is then rearranged, because a one-shot
adapter pays for every class at each start (a quarter of a millisecond): one module a direction,
so that planning loads no model of rendering and no adapter those of the measuring clients; one
configuration for all classes; plain aliases instead of TypeAliasType.

Requests are checked by these models. Answers are written by the adapter itself, so they are plain
dictionaries, whose types (TypedDict, in answers.py) come from the same definitions; the tests hold
every answer they see against the schema.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from datamodel_code_generator import InputFileType, LiteralType, PythonVersion, generate
from datamodel_code_generator.enums import StrictTypes

GENERATOR_VERSION = "0.89.0"
ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema" / "adapter-protocol-v6.schema.json"
PACKAGE = ROOT / "inferlab_adapters" / "protocol"

# Each module holds what its roots reach and no earlier module has; the last takes the rest.
MODULES = {
    "_v6": ("PlanServeRequest",),
    "_v6_render": ("AdapterRequest",),
    "_v6_response": ("AdapterResponse",),
    "_v6_clients": (),
}

# What an adapter writes, and the module that holds the types of it.
ANSWERS = ("AdapterResponse",)
ANSWERS_MODULE = "answers"

# What the generator cannot say is written by hand and only imported.
BY_HAND = {"SettingValue": "_setting_value"}

HEADER = f"""\
# Generated from schema/{SCHEMA.name} by scripts/{Path(__file__).name}
# with datamodel-code-generator {GENERATOR_VERSION}: change the schema and run the script instead.

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

"""

ANSWERS_HEADER = f'''\
# Generated from schema/{SCHEMA.name} by scripts/{Path(__file__).name}
# with datamodel-code-generator {GENERATOR_VERSION}: change the schema and run the script instead.
"""What an adapter answers, as the plain dictionaries it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from inferlab_adapters.protocol._setting_value import SettingValue

'''

BASE = '''
class WireModel(BaseModel):
    """What all messages share: nothing unknown, nothing coerced, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
'''


def main(argv: list[str]) -> int:
    found = version("datamodel-code-generator")
    if found != GENERATOR_VERSION:
        print(f"needs datamodel-code-generator {GENERATOR_VERSION}, not {found}", file=sys.stderr)
        return 2
    if argv not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    wanted = {PACKAGE / name: text for name, text in modules().items()}
    stale = [path for path, text in wanted.items() if not holds(path, text)]
    if not argv:
        for path in stale:
            path.write_text(wanted[path], encoding="utf-8")
    elif stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"stale: {names}; run scripts/{Path(__file__).name}", file=sys.stderr)
        return 1
    return 0


def holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def modules() -> dict[str, str]:
    """The text of each generated module, by file name."""
    schema: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    statements = generated(schema)
    home = {"WireModel": "_v6", **BY_HAND}
    texts: dict[str, str] = {}
    for module, roots in MODULES.items():
        wanted = reachable(schema["$defs"], roots) if roots else set(statements)
        mine = [node for name, node in statements.items() if name in wanted and name not in home]
        home.update(dict.fromkeys((defined(node) for node in mine), module))
        texts[f"{module}.py"] = text_of(module, mine, home)
    texts[f"{ANSWERS_MODULE}.py"] = answers(schema["$defs"], statements)
    return texts


def generated(schema: dict[str, Any]) -> dict[str, ast.stmt]:
    """The class or alias of every definition, in an order in which they can be evaluated."""
    source = generate(
        json.dumps(without_comments(schema)),
        input_filename=SCHEMA.name,
        input_file_type=InputFileType.JsonSchema,
        target_python_version=PythonVersion.PY_311,
        enum_field_as_literal=LiteralType.All,
        strict_types=list(StrictTypes),
        strict_nullable=True,
        use_annotated=True,
        use_type_alias=True,
        use_union_operator=True,
        use_schema_description=True,
        use_single_line_docstring=True,
        disable_future_imports=True,
        formatters=[],
    )
    assert isinstance(source, str)
    tidied = [tidy(node) for node in ast.parse(source).body if not isinstance(node, ast.ImportFrom)]
    return {defined(node): node for node in tidied}


def without_comments(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with descriptions left only where they become the docstring of a class."""

    def strip(node: Any, *, keep: bool = False) -> Any:
        if isinstance(node, list):
            return [strip(item) for item in node]
        if not isinstance(node, dict):
            return node
        return {
            key: strip(value)
            for key, value in node.items()
            if keep or key != "description" or not isinstance(value, str)
        }

    definitions = {
        name: strip(node, keep="properties" in node) for name, node in schema["$defs"].items()
    }
    return {"$schema": schema["$schema"], "$ref": schema["$ref"], "$defs": definitions}


class Cheaper(ast.NodeTransformer):
    """Says the same in fewer objects, given the strict configuration all classes share."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(STRICT.get(node.id, node.id))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """The defaults are written here: nobody needs to validate them."""
        node.keywords = [word for word in node.keywords if word.arg != "validate_default"]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Aliases stay strict on their own; a Field that says nothing goes."""
        self.generic_visit(node)
        match node:
            case ast.Subscript(
                value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[plain, ast.Call() as field])
            ):
                if not field.keywords:
                    return plain
                if isinstance(plain, ast.Name) and plain.id in STRICT.values():
                    field.keywords.insert(0, ast.keyword("strict", ast.Constant(True)))
        return node


STRICT = {"StrictStr": "str", "StrictBool": "bool", "StrictInt": "int", "StrictFloat": "float"}


def tidy(node: ast.stmt) -> ast.stmt:
    match node:
        case ast.ClassDef(body=[*body]):
            node.bases = [ast.Name("WireModel")]
            node.body = [item for item in body if not isinstance(item, ast.Assign)]
        case ast.Assign(targets=[ast.Name() as target], value=ast.Call(args=[_, value])):
            node = ast.AnnAssign(target, ast.Name("TypeAlias"), value, simple=1)
    tidied: ast.stmt = Cheaper().visit(node)
    return ast.fix_missing_locations(tidied)


def defined(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    raise ValueError(f"neither a class nor an alias: {ast.unparse(node)}")


def reachable(definitions: dict[str, Any], roots: tuple[str, ...]) -> set[str]:
    found = set(BY_HAND)
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(references(definitions[name]))
    return found


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].removeprefix("#/$defs/")
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from references(item)


def text_of(module: str, statements: list[ast.stmt], home: dict[str, str]) -> str:
    used = {item.id for node in statements for item in ast.walk(node) if isinstance(item, ast.Name)}
    imports = [
        f"from .{other} import {name}"
        for name, other in home.items()
        if name in used and other != module
    ]
    base = BASE if home["WireModel"] == module else ""
    body = [ast.unparse(node) for node in statements]
    return formatted(HEADER + "\n".join([*imports, base, *body]))


class Plain(ast.NodeTransformer):
    """The type of a value as JSON holds it, without the rules a model checks."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[plain, *_])):
                return plain
        return node


def answers(definitions: dict[str, Any], statements: dict[str, ast.stmt]) -> str:
    """The answers as typed dictionaries; what a model may leave out, a dictionary need not have."""
    wanted = reachable(definitions, ANSWERS)
    body = []
    for name, node in statements.items():
        if name not in wanted or name in BY_HAND:
            continue
        node = ast.parse(ast.unparse(node)).body[0]
        match node:
            case ast.ClassDef():
                node.bases = [ast.Name("TypedDict")]
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and is_none(item.value):
                        assert isinstance(item.annotation, ast.BinOp)
                        optional = item.annotation.left
                        item.annotation = ast.Subscript(ast.Name("NotRequired"), optional)
                    if isinstance(item, ast.AnnAssign):
                        item.value = None
        body.append(ast.unparse(ast.fix_missing_locations(Plain().visit(node))))
    return formatted("\n".join([ANSWERS_HEADER, *body]))


def is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def formatted(source: str) -> str:
    for command in (["check", "--fix", "--select=F401,I", "--quiet"], ["format"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length=100", "-"],
            input=source,
            capture_output=True,
            check=True,
            text=True,
        )
        source = done.stdout
    return source


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
