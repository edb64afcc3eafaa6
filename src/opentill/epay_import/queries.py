"""All SQL about merchants that are imported."""

from opentill.db.query import Command, Query, Value
from opentill.epay_import.progress import ImportedMerchant

OF_PIDS = Query(
    ImportedMerchant,
    """
    select i.merchant_id, i.pid, i.state, p.product_id
    from unnest((select :pid::bigint[])) as wanted (pid)
    join directory d on d.id = 'pid_' || wanted.pid
    join epay_imports i on i.merchant_id = d.merchant_id
    join epay_products p on p.merchant_id = i.merchant_id and p.currency = :currency
    """,
)
INSERT = Command(
    """
    insert into epay_imports (merchant_id, pid, state, created_at)
    values (:merchant_id, :pid, 'RUNNING', :now)
    """,
)
STATE = Value(str, "select state from epay_imports where merchant_id = :merchant_id")
FINISH = Command(
    """
    update epay_imports set state = 'FINISHED', finished_at = :now
    where merchant_id = :merchant_id and state = 'RUNNING'
    """,
)
