"""SQL that finds the login of a request together with what its access to merchants needs."""

from opentill.db.query import Query
from opentill.people import queries
from opentill.people.model import LoginWithWorkplaces

_WORKPLACES = queries.WORKPLACES.text.replace(":person_id", "login.person_id")
# Like LOGIN, with the person's workplaces. Each page of a merchant needs both.
LOGIN_WITH_WORKPLACES = Query(
    LoginWithWorkplaces,
    f"""
    select login.*, coalesce((select json_agg(w) from ({_WORKPLACES}) w), '[]')::text
        as workplaces_json
    from ({queries.LOGIN.text}) login
    """,  # noqa: S608 - interpolates constants of this program only
)
