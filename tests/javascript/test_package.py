"""The JavaScript package: its generated sources, its types and the files that it contains."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from tools import javascript_client as maker

import opentill
from opentill import app
from opentill.core.settings import Settings
from support.javascript import SOURCE, TOP, require_programs, run

TEXT: Final = {"type": "string"}
TIME: Final = {"type": "integer", "format": "int64", "description": "When, Unix ms."}


@pytest.mark.parametrize("file", ["types.ts", "resources.ts", "version.ts"])
def test_the_generated_files_are_up_to_date(file: str) -> None:
    assert (SOURCE / "src" / file).read_text() == maker.generate_files()[file], "run: make client"


def test_every_operation_of_the_python_client_is_a_method_with_its_fields() -> None:
    resources = (SOURCE / "src" / "resources.ts").read_text()
    assert resources.count('{ method: "') == len(maker.CALLS)
    for kind in app.PAYLOADS:
        assert f'  type: "{kind}";' in (SOURCE / "src" / "types.ts").read_text()


def test_the_readme_names_every_method() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (`.*`) \|$", (SOURCE / "README.md").read_text(), re.MULTILINE
    )
    named = {(group, name) for group, names in rows for name in re.findall(r"\w+", names)}
    assert named == {
        (one.group, one.name) for one in maker.list_operations(app.openapi_document(Settings()))
    }


@pytest.mark.parametrize(
    ("schema", "is_request", "type_"),
    [
        ({"type": ["string", "null"]}, True, "string | null"),
        (TIME, True, "number | Date"),
        (TIME, False, "number"),
        ({"enum": ["A", "B"], "type": "string"}, True, '"A" | "B"'),
        ({"enum": ["A", "B"], "type": "string"}, False, '"A" | "B" | Later'),
        ({"type": "array", "items": {"enum": ["A", "B"]}}, True, 'readonly ("A" | "B")[]'),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Note"}}, False, "Note[]"),
        ({"type": "object", "additionalProperties": TEXT}, True, "Record<string, string>"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, False, "string | null"),
        ({"const": "order.paid", "type": "string"}, False, '"order.paid"'),
    ],
)  # fmt: skip
def test_a_schema_becomes_a_type(schema: Any, is_request: bool, type_: str) -> None:
    assert maker.Types({}).type_of(schema, is_request=is_request) == type_


def test_a_schema_of_an_unknown_form_is_no_type() -> None:
    with pytest.raises(ValueError, match="without a type"):
        maker.Types({}).type_of({"not": {}}, is_request=False)


def test_the_package_has_this_version_and_no_dependencies() -> None:
    package = json.loads((SOURCE / "package.json").read_text())
    assert package["version"] == opentill.__version__
    assert "dependencies" not in package
    assert (SOURCE / "LICENSE").read_text() == (TOP / "LICENSE").read_text()


@pytest.mark.parametrize("form", ["folder", "tarball"])
def test_the_package_installs_from_a_checkout(tmp_path: Path, form: str) -> None:
    require_programs("node", "npm")
    package, project = tmp_path / "client", tmp_path / "shop"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    project.mkdir()
    (project / "package.json").write_text('{"type": "module"}')
    offline = {"npm_config_prefer_offline": "true", "npm_config_audit": "false"}
    target = str(package)
    if form == "tarball":
        run(["npm", "pack", package], project, **offline)
        (tarball,) = project.glob("*.tgz")
        target = f"./{tarball.name}"
    run(["npm", "install", target], project, **offline)
    (project / "shop.js").write_text(
        'import { Client } from "@opentill/client";\nconsole.log(typeof Client);\n'
    )
    assert run(["node", "shop.js"], project) == "function\n"


def test_the_package_contains_the_built_files(javascript_client: Path) -> None:
    command = ["npm", "pack", "--dry-run", "--json", "--ignore-scripts"]
    (packed,) = json.loads(run(command, javascript_client))
    files = {entry["path"] for entry in packed["files"]}
    modules = {path.stem for path in (SOURCE / "src").glob("*.ts")}
    built = {f"dist/{name}{end}" for name in modules for end in (".js", ".d.ts")}
    assert files == built | {"package.json", "README.md", "LICENSE"}
    for text in ((javascript_client / name).read_text() for name in built):
        assert "any;" not in text  # every value has a type
