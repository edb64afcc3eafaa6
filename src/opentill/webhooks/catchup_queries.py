"""SQL that numbers events and reads them in the order of their numbers.

Ids are generated before the commit, so that events do not become visible in the order of their
ids. Numbers are assigned after it, under the lock of the merchant's head: an event that becomes
visible later gets a higher number, and a reader of all numbers up to N has missed nothing. Numbers
start at the current time, so that those assigned after a restore exceed all earlier ones.
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
# Give numbers to events, above `:floor` and above the last number; return the new last number. This
# statement follows LOCK_HEAD, so that its snapshot contains all numbers given before.
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
# The number of the `:max_scanned`-th event after the cursor. It cannot be computed, because numbers
# have gaps.
EVENTS_READ_TO = Value(
    int,
    """
    select number from events
    where merchant_id = :merchant_id and number > :after and number <= :last
    order by number limit 1 offset :max_scanned - 1
    """,
)
# Events with a number above `:after`, up to `:last`; of one type if it is given.
EVENTS = Query(
    NumberedEvent,
    """
    select id, number, body from events
    where merchant_id = :merchant_id and number > :after and number <= :last
        and (:type::text is null or type = :type)
    order by number limit :limit
    """,
)
# Like EVENTS and EVENTS_READ_TO, with the resends, whose numbers are of the same sequence.
EVENTS_AND_RESENDS = Query(
    NumberedEvent,
    """
    (select id, number, body from events
        where merchant_id = :merchant_id and number > :after and number <= :last
            and (:type::text is null or type = :type)
        order by number limit :limit)
    union all
    (select v.id, r.number, v.body from event_resends r
        join events v on v.merchant_id = r.merchant_id and v.id = r.event_id
        where r.merchant_id = :merchant_id and r.number > :after and r.number <= :last
            and (:type::text is null or v.type = :type)
        order by r.number limit :limit)
    order by number limit :limit
    """,
)
RESENDS_READ_TO = Value(
    int,
    """
    select number from event_resends
    where merchant_id = :merchant_id and number > :after and number <= :last
    order by number limit 1 offset :max_scanned - 1
    """,
)
