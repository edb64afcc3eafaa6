"""Generated sources in Java and C# have the right types, and those in Java run."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from generated.toolchain import copy_files, generate, jar, run
from opentill.http.fields import is_decimal
from support.api_server import ApiServer, Shop

pytestmark = pytest.mark.clients
# For each language, the pattern of a model's field, with its type and name.
FIELDS: Final = {
    "java": r"private (\w+) (\w+);",
    "csharp": r"public (\w+)\?? (\w+)\s*\{",
}
OPTIONS: Final = {
    "java": (
        *("--library", "native", "--additional-properties", "openApiNullable=false"),
        *("--schema-mappings", "MetadataFilter=com.example.MetadataFilter"),
    ),
    "csharp": (),
}
WIDE: Final = {"Long", "long"}
NUMBERS: Final = {"Integer", "int", "BigDecimal", "decimal", "Object", *WIDE}


@pytest.fixture(scope="module", params=FIELDS)
def sources(
    request: pytest.FixtureRequest, document: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Generate a client, and return its language and folder."""
    language = request.param
    place = tmp_path_factory.mktemp(language)
    return language, generate(language, document, place / "generated", *OPTIONS[language])


def test_amounts_are_text_and_whole_numbers_that_may_be_large_have_64_bits(
    document: Path, sources: tuple[str, Path]
) -> None:
    language, folder = sources
    types: dict[str, set[str]] = {}
    for path in folder.rglob("*"):
        if path.suffix in {".java", ".cs"}:
            for kind, name in re.findall(FIELDS[language], path.read_text()):
                types.setdefault(name[0].lower() + name[1:], set()).add(kind)
    fields = dict(_fields(json.loads(document.read_text())["components"]["schemas"]))
    amounts = [name for name, schema in fields.items() if is_decimal(schema)]
    assert len(amounts) > 20
    assert {kind for name in amounts for kind in types[name]} <= {"String", "string"}
    widths = {name: each["format"] for name, each in fields.items() if "integer" in each["type"]}
    assert len(widths) > 20
    for name, width in widths.items():
        assert (types[name] & NUMBERS <= WIDE) == (width == "int64"), (name, types[name])


@pytest.mark.parametrize("sources", ["java"], indirect=True)
def test_a_client_in_java_compiles_and_lists_orders_by_metadata(
    api_server: ApiServer, shop: Shop, sources: tuple[str, Path]
) -> None:
    _, folder = sources
    names = ("Generated.java", "MetadataFilter.java", "ListOrders.java")
    copy_files(folder, *(f"java/{name}" for name in names))
    generated = [str(path) for path in (folder / "src/main").rglob("*.java")]
    (folder / "sources").write_text("\n".join([*generated, *names]))
    # The jar of the generator also contains the libraries that the client needs.
    run("javac", "-nowarn", "-d", "built", "-cp", jar(), "@sources", cwd=folder)
    order, _ = (shop.create_order(metadata={"cart": cart}) for cart in ("17 & 4", "18"))
    environment = {"TILL_URL": api_server.url, "TILL_KEY": shop.key}
    program = ("java", "-cp", f"built:{jar()}", "ListOrders", "17 & 4")
    assert run(*program, cwd=folder, **environment) == f"{order['id']} {order['amount']}\n"


def _fields(schemas: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the fields of all components that have a type: name in camelCase, and schema."""
    for schema in schemas.values():
        for name, field in schema.get("properties", {}).items():
            if "type" in field:
                words = name.split("_")
                yield words[0] + "".join(map(str.capitalize, words[1:])), field
