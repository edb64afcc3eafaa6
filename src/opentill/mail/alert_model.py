"""The contents of alerts about gateway accounts."""

import msgspec


class PausedAccountContent(msgspec.Struct, frozen=True, kw_only=True):
    """An account at a gateway has paused itself at ``at`` because of its failures (Unix ms)."""

    account: str
    reason: str
    at: int
    retry_at: int
