"""Write the tables of fields in docs/contract.md from the OpenAPI document.

`make client` runs it. A table stands between ``<!-- fields of NAME -->`` and ``<!-- end -->``: NAME
is a schema of the document, ``events`` for the table of event types, ``queries`` for the query
parameters of all reads, or ``statement`` for the columns of a statement's CSV. A test compares the
file with the output of this program.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from opentill import ledger
from opentill.app import openapi_document
from opentill.core.settings import Settings
from opentill.webhooks.event_types import SENT_TYPES

CONTRACT: Final = Path(__file__).parents[1] / "docs" / "contract.md"
_TABLE: Final = re.compile(r"(<!-- fields of (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
# The table of queries leaves out these parameters, which every list has.
_PAGING: Final = frozenset({"page", "size"})
# Schema → the schema whose fields its table leaves out, because these have a table of their own.
_PARENTS: Final = {"OrderDetail": "Order"}

Json = Mapping[str, Any]


def _field_rows(schemas: Json, name: str) -> list[str]:
    """Return the rows of a schema's fields, without those of its parent."""
    properties = schemas[name]["properties"]
    inherited = schemas[_PARENTS[name]]["properties"] if name in _PARENTS else {}
    rows = [
        f"| `{field}` | {schema['description']} |"
        for field, schema in properties.items()
        if field not in inherited
    ]
    return ["| field | |", "|---|---|", *rows]


def _event_rows(document: Json) -> list[str]:
    """Return a row for each type of event: the fields of its ``data``, and the values of enums."""
    schemas = document["components"]["schemas"]
    rows = []
    for type_ in SENT_TYPES:
        properties = schemas[_payload_schema(document, type_)]["properties"]
        fields = [
            f"{field} ({', '.join(f'`{value}`' for value in schema['enum'])})"
            if "enum" in schema
            else field
            for field, schema in properties.items()
            if field != "livemode"
        ]
        rows.append(f"| `{type_}` | {', '.join(fields)} |")
    return ["| type | `data`, beside `livemode` |", "|---|---|", *rows]


def _query_rows(document: Json) -> list[str]:
    """Return a row for each operation that reads and has query parameters besides paging."""
    rows = []
    for path, operations in document["paths"].items():
        parameters = operations.get("get", {}).get("parameters", ())
        names = [each["name"] for each in parameters if each["in"] == "query"]
        if shown := [f"`{name}`" for name in names if name not in _PAGING]:
            rows.append(f"| `GET {path}` | {', '.join(shown)} |")
    return ["| operation | query parameters |", "|---|---|", *rows]


def _statement_rows() -> list[str]:
    """Return a row for each column of a statement's CSV."""
    rows = [f"| `{name}` | {content} |" for name, content in ledger.STATEMENT_COLUMNS.items()]
    return ["| column | content |", "|---|---|", *rows]


def _payload_schema(document: Json, type_: str) -> str:
    """Return the name of the schema of an event's ``data``."""
    request = document["webhooks"][type_]["post"]["requestBody"]
    schemas = document["components"]["schemas"]
    event = request["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return str(schemas[event]["properties"]["data"]["$ref"].rpartition("/")[2])


def update_tables(text: str) -> str:
    """Return the text of the contract with tables that match the document."""
    document = openapi_document(Settings())
    schemas = document["components"]["schemas"]

    def format_table(match: re.Match[str]) -> str:
        name = match[2]
        if name == "events":
            lines = _event_rows(document)
        elif name == "statement":
            lines = _statement_rows()
        else:
            lines = _query_rows(document) if name == "queries" else _field_rows(schemas, name)
        return match[1] + "\n".join(lines) + "\n"

    return _TABLE.sub(format_table, text)


def main() -> None:
    """Update the file."""
    CONTRACT.write_text(update_tables(CONTRACT.read_text()))


if __name__ == "__main__":
    main()
