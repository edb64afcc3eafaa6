"""How long logins, proofs of identity, links and tokens of persons are valid, in ms."""

from typing import Final, NamedTuple

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS


class LoginLifetime(NamedTuple):
    """How long a login lasts without use, and in total."""

    idle: int
    total: int


OF_MEMBERS: Final = LoginLifetime(idle=12 * HOUR_MS, total=14 * 24 * HOUR_MS)
OF_STAFF: Final = LoginLifetime(idle=HOUR_MS, total=12 * HOUR_MS)
# Cookies and the rows of logins do not contain the person's role, so both are kept as long as the
# longest login can last.
LONGEST_LOGIN_MS: Final = max(OF_MEMBERS.total, OF_STAFF.total)
USED_AT_PRECISION_MS: Final = MINUTE_MS  # a login's time of last use is written at most this often

PROOF_MS: Final = 10 * MINUTE_MS  # how long a proof of identity permits dangerous actions
PENDING_MS: Final = 10 * MINUTE_MS  # how long a login may lack the second factor of its person
LINK_MS: Final = 24 * HOUR_MS  # how long an invitation or a link to a new password is valid
CHALLENGE_MS: Final = 5 * MINUTE_MS  # how long a passkey may sign a challenge
ACCESS_TOKEN_MS: Final = 10 * MINUTE_MS
NEW_LOGIN_MAIL_MS: Final = HOUR_MS  # how long a new login can still cause a mail
