"""SQL that writes cells of a CSV file as ``http/csvfile.py`` does, byte for byte.

Names of columns go in; all of them are constants of ours.
"""

from opentill.core.money import EXPONENTS
from opentill.http import csvfile


def quoted(text: str) -> str:
    """Write a cell as RFC 4180 does: in quotes where it has to be."""
    special = "position({} in {}) = 0"
    plain = " and ".join(special.format(c, text) for c in ("'\"'", "','", "e'\\n'", "e'\\r'"))
    return f"""case when {plain} then {text} else '"' || replace({text}, '"', '""') || '"' end"""


def inert(text: str) -> str:
    """Write text of others as csvfile.cell does: an apostrophe before what would be run."""
    return f"""case when {text} ~ '{csvfile.ANYWHERE}' then
        case when {text} ~ '{csvfile.AT_START}' then '''' else '' end
        || regexp_replace({text}, '{csvfile.AFTER_SEPARATOR}', '\\1''', 'g') else {text} end"""


def inert_json(text: str) -> str:
    """Write JSON of others as csvfile.cell does."""
    escaped = csvfile.JSON_SEMICOLON.replace("\\", "\\\\")  # a backslash of the replacement
    return f"""case when position(';' in {text}) = 0 then {text}
        else regexp_replace({text}, '{csvfile.IN_JSON}', '{escaped}', 'g') end"""


def _codes(decimals: int) -> str:
    return ", ".join(f"'{code}'" for code, has in EXPONENTS.items() if has == decimals)


def unit(currency: str) -> str:
    """Return what a minor unit is worth. Lists of constants are hashed by PostgreSQL."""
    return f"""case when {currency} in ({_codes(2)}) then 0.01 when {currency} in ({_codes(3)})
        then 0.001 when {currency} in ({_codes(0)}) then 1.00 end"""


def utc(millis: str) -> str:
    """Write a time as csvfile.utc does."""
    return f"""trim('"' from to_json(timestamp '1970-01-01'
        + {millis} / 1000 * interval '1 second')::text)
        || '.' || right((1000 + {millis} % 1000)::text, 3) || 'Z'"""
