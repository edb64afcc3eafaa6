"""SQL for acceptances of the agreement."""

from opentill.agreement.model import Acceptance
from opentill.db.query import Command, Query, Value

INSERT = Command(
    """
    insert into agreement_acceptances (merchant_id, agreement_version, template_sha256,
        document_sha256, person_id, person, accepted_at, address, device)
    values (:merchant_id, :agreement_version, :template_sha256, :document_sha256, :person_id,
        :person, :accepted_at, :address, :device)
    on conflict (merchant_id, agreement_version) do nothing
    """,
)
ACCEPTED = Query(
    Acceptance,
    """
    select * from agreement_acceptances
    where merchant_id = :merchant_id and agreement_version = :agreement_version
    """,
)
ANY = Value(
    bool, "select exists (select from agreement_acceptances where merchant_id = :merchant_id)"
)
ALL = Query(
    Acceptance,
    """
    select * from agreement_acceptances where merchant_id = :merchant_id
    order by accepted_at desc, agreement_version desc
    """,
)
