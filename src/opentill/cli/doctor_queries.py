"""What ``opentill doctor`` asks PostgreSQL about itself."""

from typing import Final

from opentill.db.query import Value

VERSION: Final = Value(int, "select current_setting('server_version_num')::int")
# Unix ms, at the moment at which the statement runs.
CLOCK: Final = Value(int, "select (extract(epoch from clock_timestamp()) * 1000)::bigint")
