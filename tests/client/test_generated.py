"""The Python client in the repository is generated from the API document."""

import pytest
from tools import python_client, python_models

GENERATED = python_client.generate_files()


@pytest.mark.parametrize("name", GENERATED)
def test_the_client_is_generated_from_the_document(name: str) -> None:
    assert (python_client.CLIENT / name).read_text() == GENERATED[name], "run: make client"


def test_a_field_that_an_older_server_does_not_send_is_none() -> None:
    """A program may use a newer client with a server that has not been upgraded yet."""
    fields = python_models.fields_of("Thing", {
        "required": ["newNumber"],
        "properties": {
            "newNumber": {"type": ["integer", "null"]},
            "absent": {"type": "string"},
        },
    }, camel=True)  # fmt: skip
    assert [field.line().strip() for field in fields.values()] == [
        "new_number: int | None = None",
        "absent: str | None = None",
    ]
