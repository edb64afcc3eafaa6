"""All SQL about placing tables on a cluster of Citus."""

from typing import Final

import msgspec

from opentill.db.query import Query, Value


class Placed(msgspec.Struct, frozen=True):
    """A table that Citus knows: how it is placed, and by which column it is distributed."""

    name: str
    kind: str  # distributed, reference, local
    by: str


class Bound(msgspec.Struct, frozen=True):
    """A foreign key or trigger: its table and name as in statements, and what makes it."""

    table: str
    name: str
    definition: str


HAS_EXTENSION: Final = Value(
    bool, "select exists (select from pg_extension where extname = 'citus')"
)
DATABASE: Final = Value(str, "select quote_ident(current_database())")
SETTING: Final = Value(str, "select current_setting(:name, true)")
FOREIGN_KEYS: Final = Query(
    Bound,
    """
    select conrelid::regclass::text as table, quote_ident(conname) as name,
        pg_get_constraintdef(oid) as definition
    from pg_constraint
    where contype = 'f' and conparentid = 0 and connamespace = current_schema()::regnamespace
        and (conrelid::regclass::text = any (:names) or confrelid::regclass::text = any (:names))
    order by 1, 2
    """,
)

TRIGGERS: Final = Query(
    Bound,
    """
    select tgrelid::regclass::text as table, quote_ident(tgname) as name,
        pg_get_triggerdef(oid) as definition
    from pg_trigger
    where not tgisinternal and tgrelid::regclass::text = any (:names) order by 1, 2
    """,
)

# Plain text, since what they name is there only with the extension, or is no parameter.
KNOWS_COORDINATOR: Final = "select exists (select from pg_dist_node where groupid = 0)"
COUNT_WORKERS: Final = "select count(*) from pg_dist_node where shouldhaveshards and isactive"
PLACED: Final = """
select table_name::text as name, citus_table_type as kind, distribution_column as by
from citus_tables
"""
# Tables without a key of their rows: a shard of theirs cannot be moved while rows of it change.
UNMOVABLE: Final = """
select t.table_name::text as name from citus_tables t join pg_class c on c.oid = t.table_name
where t.citus_table_type = 'distributed' and c.relreplident = 'd'
    and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
"""
WHOLE_ROW: Final = "alter table {} replica identity full"
DISTRIBUTE: Final = "select create_distributed_table('{}', '{}', colocate_with => '{}')"
REPLICATE: Final = "select create_reference_table('{}')"
MAKE_KNOWN: Final = "select citus_add_local_table_to_metadata('{}')"
DROP_TRIGGER: Final = "drop trigger {} on {}"
DROP_KEY: Final = "alter table {} drop constraint {}"
ADD_KEY: Final = "alter table {} add constraint {} {}"
# Until the transaction ends. A table with a key to one that is on every node is placed, and
# altered, by one connection to each node.
BEGIN_PLACING: Final = """
set local citus.enable_unsafe_triggers = on;
set local citus.multi_shard_modify_mode = 'sequential';
set local client_min_messages = 'warning'
"""
ALONE: Final = "set local citus.enable_ddl_propagation = off"
TOGETHER: Final = "set local citus.enable_ddl_propagation = on"
SET: Final = "alter database {} set {} = '{}'"
