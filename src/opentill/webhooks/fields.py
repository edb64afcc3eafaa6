"""Field types shared by the event payloads of several features (each feature's ``events.py``).

Fields are only ever added to payloads: receivers must ignore unknown fields.
"""

from typing import Annotated

from msgspec import Meta

Amount = Annotated[str, Meta(extra_json_schema={"pattern": r"^-?[0-9]+\.[0-9]{2}$"})]
Currency = Annotated[str, Meta(description="The ISO 4217 code of the currency of the amounts.")]
