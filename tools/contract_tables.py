"""Writes the tables of fields in docs/contract.md from the OpenAPI document.

`make client` runs it. A table stands between ``<!-- fields of NAME -->`` and ``<!-- end -->``: NAME
is a schema of the document, or ``events`` for the table of event types. A test compares the file
with what is written here.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from opentill.app import openapi_document
from opentill.core.settings import Settings
from opentill.webhooks.event_types import SENT_TYPES

CONTRACT: Final = Path(__file__).parents[1] / "docs" / "contract.md"
_TABLE: Final = re.compile(r"(<!-- fields of (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
_PARENTS: Final = {"OrderDetail": "Order"}  # whose fields are listed there

Json = Mapping[str, Any]


def _fields(schemas: Json, name: str) -> list[str]:
    """Write a row for each field of a schema that its parent lacks."""
    properties = schemas[name]["properties"]
    inherited = schemas[_PARENTS[name]]["properties"] if name in _PARENTS else {}
    rows = [
        f"| `{field}` | {schema['description']} |"
        for field, schema in properties.items()
        if field not in inherited
    ]
    return ["| field | |", "|---|---|", *rows]


def _events(document: Json) -> list[str]:
    """Write a row for each type of event: the fields of its ``data``, with the values of enums."""
    schemas = document["components"]["schemas"]
    rows = []
    for type_ in SENT_TYPES:
        properties = schemas[_schema_of(document, type_)]["properties"]
        fields = [
            f"{field} ({', '.join(f'`{value}`' for value in schema['enum'])})"
            if "enum" in schema
            else field
            for field, schema in properties.items()
            if field != "livemode"
        ]
        rows.append(f"| `{type_}` | {', '.join(fields)} |")
    return ["| type | `data`, beside `livemode` |", "|---|---|", *rows]


def _schema_of(document: Json, type_: str) -> str:
    """Return the name of the schema of an event's ``data``."""
    request = document["webhooks"][type_]["post"]["requestBody"]
    schemas = document["components"]["schemas"]
    event = request["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return str(schemas[event]["properties"]["data"]["$ref"].rpartition("/")[2])


def written(text: str) -> str:
    """Return the contract with its tables as the document has them."""
    document = openapi_document(Settings())
    schemas = document["components"]["schemas"]

    def table(match: re.Match[str]) -> str:
        name = match[2]
        lines = _events(document) if name == "events" else _fields(schemas, name)
        return match[1] + "\n".join(lines) + "\n"

    return _TABLE.sub(table, text)


def main() -> None:
    """Write the file."""
    CONTRACT.write_text(written(CONTRACT.read_text()))


if __name__ == "__main__":
    main()
