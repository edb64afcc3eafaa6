"""One attempt: an event signed and sent to an endpoint, and what came of it."""

import time
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from opentill.core.encryption import decrypt, encrypt
from opentill.db.clock import now_ms
from opentill.outgoing.client import Forbidden, NoResponse, Outgoing, Response, Unreachable
from opentill.webhooks import signing
from opentill.webhooks.model import DeliveryAttempt, Due, Outcome

_ANSWER_BYTES: Final = 64 * 1024  # more than this of an answer is not even read
_SHOWN: Final = 2048  # characters of a request or answer that are kept
WRONG_KEY: Final = (
    "OPENTILL_SECRET_KEY is not the one that the endpoints' secrets were sealed with: set it back,"
    " or make new secrets with `opentill webhooks rotate`; until then nothing is sent or lost"
)
_log: Final = structlog.get_logger()


class OldSecret(msgspec.Struct, frozen=True, array_like=True):
    """A secret that was replaced, and until when it signs along; business time."""

    secret: str
    until: int


_read_old: Final = msgspec.json.Decoder(list[OldSecret]).decode


def purpose(merchant_id: str, endpoint_id: str) -> str:
    """Return what an endpoint's secrets are sealed for."""
    return f"webhook secret {merchant_id} {endpoint_id}"


def open_secrets(secret_key: str, due: Due, now: int) -> list[str]:
    """Return the secrets that sign now, the newest first. Raises WrongKey."""
    own = purpose(due.merchant_id, due.endpoint_id)
    keys = [decrypt(secret_key, own, due.secret)]
    if due.old_secret is not None and now < (due.old_secret_until or 0):
        keys += [old.secret for old in open_old(secret_key, own, due.old_secret, now)]
    return keys


def open_old(secret_key: str, own: str, encrypted: bytes, now: int) -> list[OldSecret]:
    """Return the old secrets that sign along now, the newest first. Raises WrongKey."""
    kept = _read_old(decrypt(secret_key, own, encrypted))
    return [old for old in kept if now < old.until]


def seal_old(secret_key: str, own: str, old: Sequence[OldSecret]) -> bytes:
    """Seal old secrets together."""
    return encrypt(secret_key, own, msgspec.json.encode(old).decode())


async def attempt(
    outgoing: Outgoing,
    secret_key: str,
    due: Due,
    now: int,
    timeout_s: float,
    header_prefix: str = signing.HEADER_PREFIX,
) -> DeliveryAttempt:
    """Send a delivery once; whatever happens is an outcome.

    Raises WrongKey for one that cannot be signed: then nothing was sent, and it is no attempt.
    ``now`` is business time. The signature's time is the real one.
    """
    keys = open_secrets(secret_key, due, now)
    body = due.body.encode()
    started = time.perf_counter()
    shown = answered = error = ""
    http_status = None
    outcome: Outcome
    try:
        headers = {
            "content-type": "application/json",
            **dict(signing.headers(keys, due.event_id, now_ms(), body, header_prefix)),
        }
        shown = f"POST {due.url}\n" + "".join(f"{name}: {headers[name]}\n" for name in headers)
        answer = await outgoing.send(
            "POST",
            due.url,
            headers=headers,
            body=body,
            timeout_s=timeout_s,
            max_bytes=_ANSWER_BYTES,
        )
        http_status = answer.status
        outcome = "delivered" if 200 <= http_status < 300 else "refused"  # noqa: PLR2004 - 2xx
        answered = _head(answer)
    except Forbidden as refusal:
        outcome, error = "forbidden", str(refusal)
    except Unreachable as failure:
        outcome, error = "unreachable", str(failure)
    except NoResponse as failure:
        outcome, error = "no_answer", str(failure)
    except Exception:  # noqa: BLE001 - one attempt's defect must not be tried again at once
        _log.exception("webhook attempt failed", endpoint=due.endpoint_id, event_id=due.event_id)
        outcome, error = "no_answer", "internal error"
    return DeliveryAttempt(
        merchant_id=due.merchant_id,
        endpoint_id=due.endpoint_id,
        event_id=due.event_id,
        number=due.attempts + 1,
        at=now,
        duration_ms=int((time.perf_counter() - started) * 1000),
        outcome=outcome,
        http_status=http_status,
        request=_kept(shown),
        answer=_kept(answered),
        error=_kept(error),
    )


def _head(answer: Response) -> str:
    """Return an answer's status, its headers and where its body begins."""
    lines = [f"HTTP {answer.status}", *(f"{name}: {value}" for name, value in answer.headers)]
    text = "\n".join(lines)[: _SHOWN // 2]
    return f"{text}\n\n{answer.body[: _SHOWN // 2].decode(errors='replace')}"


def _kept(text: str) -> str:
    """Make of a text from anywhere one that the database takes."""
    text = text[:_SHOWN].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.encode(errors="replace").decode()
