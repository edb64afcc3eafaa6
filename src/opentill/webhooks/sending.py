"""One delivery attempt: sign the event and send it to the endpoint."""

import time
from typing import Final

import structlog

from opentill.core import tracing
from opentill.db.clock import now_ms
from opentill.outgoing import faults
from opentill.outgoing.client import Forbidden, NoResponse, Outgoing, Response, Unreachable
from opentill.webhooks import signing
from opentill.webhooks.endpoint_secrets import signing_secrets
from opentill.webhooks.endpoint_test import body_of_test
from opentill.webhooks.model import DeliveryAttempt, DueDelivery, Outcome

_RESPONSE_BYTES: Final = 64 * 1024  # at most this many bytes of a response are read
_MAX_STORED: Final = 2048  # at most this many characters of a request or response are stored
WRONG_KEY: Final = (
    "OPENTILL_SECRET_KEY is not the one that the endpoints' secrets were encrypted with: set it"
    " back, or make new secrets with `opentill webhooks rotate`; until then nothing is sent or lost"
)
_log: Final = structlog.get_logger()


async def attempt(
    outgoing: Outgoing,
    secret_key: str,
    due: DueDelivery,
    now: int,
    timeout_s: float,
    header_prefix: str = signing.HEADER_PREFIX,
) -> DeliveryAttempt:
    """Send a delivery once. A failure is an outcome of the attempt, not an exception.

    ``now`` is business time, Unix ms; the signature uses real time. Raises WrongKey before anything
    is sent if the delivery cannot be signed; this does not count as an attempt.
    """
    body = (due.body or body_of_test(due)).encode()
    keys = signing_secrets(secret_key, due, now)
    signed = signing.headers(keys, due.event_id, now_ms(), body, header_prefix)
    headers = {"content-type": "application/json", **dict(signed)}
    started = time.perf_counter()
    attributes = {"opentill.event": due.event_id, "opentill.endpoint": due.endpoint_id}
    with tracing.span("webhook delivery", attributes) as span:
        span.set_attribute("opentill.attempt", due.attempts + 1)
        response, outcome, error = await _send(outgoing, due, headers, body, timeout_s)
        evidence = (
            faults.Evidence.of_failure(error, "2xx", is_forbidden=outcome == "forbidden")
            if response is None
            else faults.Evidence.of_response(response, "2xx")
        )
        span.set_attribute("opentill.outcome", outcome)
    request = f"POST {due.url}\n" + "".join(f"{name}: {text}\n" for name, text in headers.items())
    return DeliveryAttempt(
        merchant_id=due.merchant_id,
        endpoint_id=due.endpoint_id,
        event_id=due.event_id,
        number=due.attempts + 1,
        at=now,
        duration_ms=int((time.perf_counter() - started) * 1000),
        outcome=outcome,
        http_status=response.status if response else None,
        request=_storable(request),
        response=_storable(_head(response) if response else ""),
        error=_storable(error),
        fault=faults.classify(evidence),
    )


async def _send(
    outgoing: Outgoing, due: DueDelivery, headers: dict[str, str], body: bytes, timeout_s: float
) -> tuple[Response | None, Outcome, str]:
    """Return the response if there is one, the outcome, and the error."""
    try:
        response = await outgoing.send(
            "POST",
            due.url,
            headers=headers,
            body=body,
            timeout_s=timeout_s,
            max_bytes=_RESPONSE_BYTES,
        )
    except Forbidden as error:
        return None, "forbidden", str(error)
    except Unreachable as error:
        return None, "unreachable", str(error)
    except NoResponse as error:
        return None, "no_answer", str(error)
    except Exception:  # noqa: BLE001 - a defect: the attempt counts, so that it is not repeated at once
        _log.exception("webhook attempt failed", endpoint=due.endpoint_id, event_id=due.event_id)
        return None, "no_answer", "internal error"
    is_success = 200 <= response.status < 300  # noqa: PLR2004 - 2xx
    return response, "delivered" if is_success else "refused", ""


def _head(response: Response) -> str:
    """Return the status, headers and start of the body of a response."""
    lines = [f"HTTP {response.status}", *(f"{name}: {value}" for name, value in response.headers)]
    text = "\n".join(lines)[: _MAX_STORED // 2]
    return f"{text}\n\n{response.body[: _MAX_STORED // 2].decode(errors='replace')}"


def _storable(text: str) -> str:
    """Truncate a text, and replace NUL and lone surrogates, which PostgreSQL cannot store."""
    text = text[:_MAX_STORED].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.encode(errors="replace").decode()
