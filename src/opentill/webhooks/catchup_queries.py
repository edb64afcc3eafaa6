"""SQL that numbers events and reads them in the order of their numbers.

Ids are made before the commit, so that their order is not the order in which events appear.
Numbers are given after it, under the lock of the merchant's head: what appears later gets a later
number, so that a reader who has read up to a number has missed nothing. They begin at the time at
which they are given, so that those given after a restored backup are above all given before.
"""

from opentill.db.query import Command, Query, Value
from opentill.webhooks.model import NumberedEvent

OPEN_HEAD = Command(
    """
    insert into event_heads (merchant_id, number) values (:merchant_id, 0)
    on conflict (merchant_id) do nothing
    """,
)
LOCK_HEAD = Value(int, "select number from event_heads where merchant_id = :merchant_id for update")
# Number events from `:floor` on, or from the last number where that is higher, and return the last
# number. A statement of its own after the one that locks, so that it sees the numbers given before.
NUMBER = Value(
    int,
    """
    with fresh as (
        select id, row_number() over (order by id) as place from (
            select id from events where merchant_id = :merchant_id and number is null
            order by id limit :limit
        ) waiting
    ), numbered as (
        update events e set number = greatest(h.number, :floor::bigint) + fresh.place
        from fresh, event_heads h
        where e.merchant_id = :merchant_id and e.id = fresh.id and h.merchant_id = :merchant_id
        returning e.number
    )
    update event_heads set number = coalesce((select max(number) from numbered), number)
    where merchant_id = :merchant_id
    returning number
    """,
)
HAS_UNNUMBERED = Value(
    bool, "select exists (select from events where merchant_id = :merchant_id and number is null)"
)
HEAD = Value(int, "select number from event_heads where merchant_id = :merchant_id")
# Up to which number so many events are; there are gaps between numbers.
EVENTS_READ_TO = Value(
    int,
    """
    select number from events
    where merchant_id = :merchant_id and number > :after and number <= :last
    order by number limit 1 offset :looked_at - 1
    """,
)
# With a number after `:after` and up to `:last`; of one type if given.
EVENTS = Query(
    NumberedEvent,
    """
    select id, number, body from events
    where merchant_id = :merchant_id and number > :after and number <= :last
        and (:type::text is null or type = :type)
    order by number limit :limit
    """,
)
