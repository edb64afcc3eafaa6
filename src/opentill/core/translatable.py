"""The mark by which ``make messages`` finds texts that are translated where they are shown."""


def N_(message: str) -> str:  # noqa: N802 - gettext's own name
    """Mark a text that is translated where it is shown."""
    return message
