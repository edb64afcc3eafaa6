"""Exchange rates: set by command or imported from the European Central Bank's files."""

from opentill.rates.ecb import read as read_file
from opentill.rates.model import Imported, ListedRate, MissingRate, Rate, Sheet, oldest_valid_from
from opentill.rates.queries import LOOKUP_SQL
from opentill.rates.service import (
    find,
    find_newest,
    import_sheet,
    list_current,
    list_expiring,
    list_missing,
    put,
)

__all__ = [
    "LOOKUP_SQL",
    "Imported",
    "ListedRate",
    "MissingRate",
    "Rate",
    "Sheet",
    "find",
    "find_newest",
    "import_sheet",
    "list_current",
    "list_expiring",
    "list_missing",
    "oldest_valid_from",
    "put",
    "read_file",
]
