"""The isolation level of all transactions of a run, see docs/testing.md."""

import os
from typing import Final

ISOLATION: Final = os.environ.get("OPENTILL_TEST_ISOLATION", "read committed")
# Transactions that collide are then run again more often.
SERIALIZABLE: Final = ISOLATION == "serializable"
