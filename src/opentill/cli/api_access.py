"""Commands that call a server's API with a key, like any merchant's program.

They need neither the server's settings nor its database, so they run on a developer's machine.
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from opentill.core.errors import ConfigurationError, Invalid, Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx2

    from opentill.client import AsyncClient, OpenTillError

    OnResponse = Callable[[httpx2.Response], Awaitable[None]]

Key = Annotated[
    str,
    typer.Option(
        envvar="OPENTILL_API_KEY",
        help="The merchant's API key. In the variable, other users of the machine do not see it.",
    ),
]
Server = Annotated[
    str, typer.Option(envvar="OPENTILL_API_URL", help="The server's URL, without /v1.")
]
DEFAULT_SERVER: Final = "http://127.0.0.1:8080"


def connect(
    server: str, key: str, *, attempts: int, on_response: "OnResponse | None" = None
) -> "AsyncClient":
    """Create a client whose requests are sent at most ``attempts`` times. Raises Invalid."""
    from opentill.client import AsyncClient, Retries

    try:
        return AsyncClient(
            server,
            key,
            retries=Retries(attempts=attempts),
            event_hooks={"response": [on_response]} if on_response else None,
        )
    except ValueError as error:
        field = "key" if "key" in str(error) else "server"
        raise Invalid(field, f"{field}: {error}") from None


def refusal(error: "OpenTillError", server: str) -> Problem | ConfigurationError:
    """Return the error of a command for an error of the API."""
    from opentill.client import Unauthorized

    if isinstance(error, Unauthorized):
        message = f"{server} does not accept this API key: create one on its API keys page"
        return ConfigurationError(message)
    if error.field and error.reason:
        return Invalid(error.field, error.reason)
    message = f"{server}: {error}"
    return ConfigurationError(message)
