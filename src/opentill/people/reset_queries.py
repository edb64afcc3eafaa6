"""SQL for resets of second factors (`lost_factors`)."""

from opentill.db.query import Command, Query
from opentill.people.model import FactorReset

_RESET_SQL = """
    select r.id, r.person_id, p.email, p.name, r.kind, r.status, r.asked_by, r.reason,
        r.confirmed_by, r.due_at, r.created_at
    from factor_resets r join persons p on p.id = r.person_id
"""
_IS_OPEN = "r.status in ('ASKED', 'WAITING')"
FACTOR_RESET = Query(FactorReset, f"{_RESET_SQL} where r.id = :id")
OPEN_FACTOR_RESET = Query(
    FactorReset, f"{_RESET_SQL} where r.person_id = :person_id and {_IS_OPEN}"
)
OPEN_FACTOR_RESETS = Query(
    FactorReset, f"{_RESET_SQL} where {_IS_OPEN} order by r.created_at, r.id"
)
RESET_OF_LINK = Query(
    FactorReset, f"{_RESET_SQL} where r.stop_sha256 = :stop_sha256 and {_IS_OPEN}"
)
DUE_FACTOR_RESETS = Query(
    FactorReset, f"{_RESET_SQL} where r.due_at <= :now order by r.due_at limit :limit"
)
INSERT_FACTOR_RESET = Command(
    """
    insert into factor_resets (id, person_id, kind, status, asked_by, reason, due_at, created_at)
    values (:id, :person_id, :kind, :status, :asked_by, :reason, :due_at, :now)
    """,
)
CONFIRM_FACTOR_RESET = Command(
    """
    update factor_resets set status = 'WAITING', confirmed_by = :confirmed_by, due_at = :due_at
    where id = :id and status = 'ASKED'
    """,
)
STOP_FACTOR_RESET = Command(
    """
    update factor_resets set status = 'STOPPED', due_at = null, ended_by = :by, ended_at = :now
    where id = :id and status in ('ASKED', 'WAITING')
    """,
)
END_FACTOR_RESET = Command(
    """
    update factor_resets set status = 'DONE', due_at = null, ended_by = :by, ended_at = :now
    where id = :id and due_at <= :now
    """,
)
SET_STOP_LINK = Command(
    """
    update factor_resets set stop_sha256 = :stop_sha256
    where person_id = :person_id and status in ('ASKED', 'WAITING')
    """,
)
