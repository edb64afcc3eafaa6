"""The tables of the usual old Epay server (彩虹易支付), and which columns of them are read.

Names and columns are those of its ``install/install.sql`` and ``install/update*.sql``, read in the
published copy maker857/Epay (schema version 2056). The prefix is the operator's: ``pre_`` in the
file, ``pay_`` in many installations.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from opentill.epay_import.model import BadSource, Kind


class Table(NamedTuple):
    """The columns of a kind of table: those that every version has, and newer ones."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, in the order of a row's values."""
        return self.required + self.optional


TABLES: Final[dict[Kind, Table]] = {
    "config": Table(("k", "v")),
    "type": Table(("id", "name", "showname")),
    "channel": Table(("id", "type", "plugin", "name", "rate", "status")),
    "group": Table(("gid", "name", "info")),
    "user": Table(
        ("uid", "gid", "key", "money", "url", "status", "pay", "settle"),
        ("codename", "certcorpname", "mode", "refund", "keytype", "publickey", "channelinfo",
         "deposit"),
    ),
    "order": Table(
        ("trade_no", "out_trade_no", "api_trade_no", "uid", "type", "channel", "name", "money",
         "notify_url", "return_url", "addtime", "endtime", "ip", "status", "notify"),
        ("realmoney", "refundmoney", "param", "version"),
    ),
    "refundorder": Table(
        ("refund_no", "out_refund_no", "trade_no", "uid", "money", "status", "addtime"),
    ),
    "settle": Table(("id", "uid", "money", "status")),
}  # fmt: skip
# A table with these columns and the name of a kind is a table of an Epay server of any version.
_SIGNATURES: Final[dict[Kind, frozenset[str]]] = {
    "config": frozenset({"k", "v"}),
    "type": frozenset({"id", "name", "showname"}),
    "channel": frozenset({"id", "plugin", "rate"}),
    "group": frozenset({"gid", "info"}),
    "user": frozenset({"key", "money"}),
    "order": frozenset({"trade_no", "out_trade_no", "money"}),
    "refundorder": frozenset({"refund_no", "trade_no"}),
    "settle": frozenset({"money", "batch"}),
}
_NEEDED: Final[tuple[Kind, ...]] = ("config", "type", "channel", "group", "user", "order")


class Tables:
    """The tables of one old server in a source: which name is of which kind."""

    def __init__(self, prefix: str | None = None) -> None:
        """``prefix``: that of the tables; None: the only one that there is."""
        self._prefix = prefix
        self.names: dict[Kind, str] = {}
        self._kinds: dict[str, Kind | None] = {}

    def kind(self, name: str) -> Kind | None:
        """Return the kind of a table that ``choose`` has seen."""
        return self._kinds.get(name)

    def choose(self, name: str, columns: Sequence[str]) -> Sequence[str] | None:
        """Return which columns of a table are read, None if it is none of an Epay server.

        Raises BadSource for an unknown version and for two servers in one source.
        """
        if name not in self._kinds:
            self._kinds[name] = self._find_kind(name, columns)
        kind = self._kinds[name]
        return None if kind is None else TABLES[kind].columns

    def _find_kind(self, name: str, columns: Sequence[str]) -> Kind | None:
        prefix, separator, suffix = name.rpartition("_")
        kind: Kind | None = next((kind for kind in TABLES if kind == suffix), None)
        if kind is None or not _SIGNATURES[kind] <= set(columns):
            return None
        if self._prefix is not None and prefix + separator != self._prefix:
            return None
        if kind in self.names:
            both = f"{self.names[kind]} and {name}"
            msg = f"there are tables of two servers, {both}: name one by --prefix"
            raise BadSource(msg, name)
        missing = [column for column in TABLES[kind].required if column not in columns]
        if missing:
            msg = (
                f"the server is of an unknown version: its table has no column {missing[0]}."
                " Update it to version 2000 or newer first"
            )
            raise BadSource(
                msg,
                name,
            )
        self.names[kind] = name
        return kind

    def check_complete(self) -> None:
        """Raise BadSource unless all tables that an import needs were there."""
        missing = [kind for kind in _NEEDED if kind not in self.names]
        if missing:
            prefix = next(iter(self.names.values()), "pre_config").rpartition("_")[0]
            names = ", ".join(f"{prefix}_{kind}" for kind in missing)
            msg = f"the tables {names} are missing"
            raise BadSource(msg)
        prefixes = {name.rpartition("_")[0] for name in self.names.values()}
        if len(prefixes) > 1:
            names = ", ".join(sorted(f"{prefix}_" for prefix in prefixes))
            msg = f"the tables have several prefixes, {names}: name one by --prefix"
            raise BadSource(msg)
