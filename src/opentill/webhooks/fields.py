"""The types of fields that the event payloads of several features have.

The payloads are in each feature's ``events.py``. Fields are only ever added: receivers are asked to
ignore those that they do not know.
"""

from typing import Annotated

from msgspec import Meta

Amount = Annotated[
    str, Meta(extra_json_schema={"format": "decimal", "pattern": r"^-?[0-9]+\.[0-9]{2}$"})
]
Currency = Annotated[str, Meta(description="The ISO 4217 code of the currency of the amounts.")]
