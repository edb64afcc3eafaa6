"""The Python client in the repository is what its generator writes from the document."""

import pytest
from tools import python_client, python_models

GENERATED = python_client.generate_files()


@pytest.mark.parametrize("name", GENERATED)
def test_the_client_is_generated_from_the_document(name: str) -> None:
    assert (python_client.CLIENT / name).read_text() == GENERATED[name], "run: make client"


def test_a_field_that_an_older_server_lacks_is_none() -> None:
    """A program with a newer client goes on with a server that has not been upgraded."""
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
