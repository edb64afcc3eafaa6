"""Mail: what customers, members, people and staff are written, each message once."""

from opentill.mail.aside import Reread, reread
from opentill.mail.composing import (
    NewInvitation,
    ask_for_new_password,
    invite,
    link_shown_to,
    offer_new_password,
    send_receipt,
)
from opentill.mail.model import (
    STATUSES,
    Mail,
    Preferences,
    PutAside,
    Queue,
    Status,
    TooManyInvitations,
    TooManyMails,
)
from opentill.mail.outbox import (
    events_put_aside,
    find_anywhere,
    make_due,
    newest,
    of_merchant,
    of_order,
    resend,
    skip_waiting,
    state,
)
from opentill.mail.preferences import SWITCHES
from opentill.mail.preferences import change as change_preferences
from opentill.mail.preferences import of as preferences_of
from opentill.mail.sending import Mailer, Options
from opentill.mail.smtp import Connection, Outcome, Server, Unreached
from opentill.mail.topics import TOPICS, Topic
from opentill.mail.trial import reach, try_out

__all__ = [
    "STATUSES",
    "SWITCHES",
    "TOPICS",
    "Connection",
    "Mail",
    "Mailer",
    "NewInvitation",
    "Options",
    "Outcome",
    "Preferences",
    "PutAside",
    "Queue",
    "Reread",
    "Server",
    "Status",
    "TooManyInvitations",
    "TooManyMails",
    "Topic",
    "Unreached",
    "ask_for_new_password",
    "change_preferences",
    "events_put_aside",
    "find_anywhere",
    "invite",
    "link_shown_to",
    "make_due",
    "newest",
    "of_merchant",
    "of_order",
    "offer_new_password",
    "preferences_of",
    "reach",
    "reread",
    "resend",
    "send_receipt",
    "skip_waiting",
    "state",
    "try_out",
]
