"""Generated sources in Java and C# store times in 64 bits, and those in Java compile."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from generated.toolchain import copy_files, generate, jar, run

pytestmark = pytest.mark.clients
# The pattern of a model's field, with its type and name.
FIELDS: Final = {
    "java": r"private (Integer|Long|BigDecimal|Object) (\w+);",
    "csharp": r"public (int|long|decimal|Object)\?? (\w+)\s*\{",
}
OPTIONS: Final = {
    "java": ("--library", "native", "--additional-properties", "openApiNullable=false"),
    "csharp": (),
}
WIDE: Final = {"Long", "long"}


@pytest.mark.parametrize("language", FIELDS)
def test_whole_numbers_that_may_be_large_have_64_bits(
    document: Path, tmp_path: Path, language: str
) -> None:
    generate(language, document, tmp_path / "generated", *OPTIONS[language])
    types: dict[str, set[str]] = {}
    for path in (tmp_path / "generated").rglob("*"):
        if path.suffix in {".java", ".cs"}:
            for kind, name in re.findall(FIELDS[language], path.read_text()):
                types.setdefault(name[0].lower() + name[1:], set()).add(kind)
    wide = dict(_integers(json.loads(document.read_text())["components"]["schemas"]))
    assert len(wide) > 20
    for name, is_wide in wide.items():
        assert (types[name] <= WIDE) == is_wide, (name, types[name])
    if language == "java":
        copy_files(tmp_path, "java/Generated.java")
        sources = [str(path) for path in (tmp_path / "generated/src/main").rglob("*.java")]
        (tmp_path / "sources").write_text("\n".join([*sources, "Generated.java"]))
        # The generator's jar contains the libraries of the client.
        run("javac", "-nowarn", "-d", "built", "-cp", jar(), "@sources", cwd=tmp_path)


def _integers(schemas: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the integer fields of all components in camelCase, and whether they need 64 bits."""
    for schema in schemas.values():
        for name, field in schema.get("properties", {}).items():
            if "integer" in field.get("type", ()):
                words = name.split("_")
                camel = words[0] + "".join(map(str.capitalize, words[1:]))
                yield camel, field["format"] == "int64"
