"""All SQL about routing rules."""

from opentill.db.query import Command, Query, Value
from opentill.gateways.rules.model import RoutingRule, RuleHead

# Every change of an account or a rule increases one of them. Processes poll this.
REVISIONS = Query(
    RuleHead,
    """
    select (select coalesce(sum(revision), 0)::bigint from gateway_accounts) as accounts,
        (select revision from routing_rule_head) as rules
    """,
)
# Locks all rules until the end of the transaction.
TOUCH = Command("update routing_rule_head set revision = revision + 1")
LIST = Query(RoutingRule, "select * from routing_rules order by position")
COUNT = Value(int, "select count(*) from routing_rules")
OPEN_GAP = Command("update routing_rules set position = position + 1 where position >= :position")
INSERT = Command(
    """
    insert into routing_rules (id, position, methods, currencies, smallest_minor, largest_minor,
        merchant_id, device, ranking, accounts, exploration_percent, is_only, created_at)
    values (:id, :position, :methods, :currencies, :smallest_minor, :largest_minor, :merchant_id,
        :device, :ranking, :accounts, :exploration_percent, :is_only, :now)
    """,
)
UPDATE = Command(
    """
    update routing_rules set methods = :methods, currencies = :currencies,
        smallest_minor = :smallest_minor, largest_minor = :largest_minor,
        merchant_id = :merchant_id, device = :device, ranking = :ranking, accounts = :accounts,
        exploration_percent = :exploration_percent, is_only = :is_only
    where id = :id
    """,
)
DELETE = Command("delete from routing_rules where id = :id")
CLOSE_GAP = Command("update routing_rules set position = position - 1 where position > :position")
SET_POSITION = Command("update routing_rules set position = :position where id = :id")
