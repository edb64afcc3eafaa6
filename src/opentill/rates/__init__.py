"""Exchange rates: set by command or imported from the European Central Bank's files."""

from opentill.rates.ecb import read as read_file
from opentill.rates.model import Imported, Lacking, ListedRate, Rate, Sheet, oldest_valid_from
from opentill.rates.queries import LOOKUP_SQL
from opentill.rates.service import bring_in, expiring, find, lacking, latest, newest, put

__all__ = [
    "LOOKUP_SQL",
    "Imported",
    "Lacking",
    "ListedRate",
    "Rate",
    "Sheet",
    "bring_in",
    "expiring",
    "find",
    "lacking",
    "latest",
    "newest",
    "oldest_valid_from",
    "put",
    "read_file",
]
