"""Moving in from an old Epay server (彩虹易支付): its merchants, keys, orders and balances."""

from opentill.epay_import.dump_reader import DumpReader
from opentill.epay_import.model import BadSource
from opentill.epay_import.progress import Done
from opentill.epay_import.report import Report, summarize
from opentill.epay_import.service import Import, find_conflicts, run, survey
from opentill.epay_import.survey import Survey

__all__ = [
    "BadSource",
    "Done",
    "DumpReader",
    "Import",
    "Report",
    "Survey",
    "find_conflicts",
    "run",
    "summarize",
    "survey",
]
