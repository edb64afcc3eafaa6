"""Reports about refunds that had ended, which contradict how they ended."""

from typing import Final

import structlog

from opentill.gateways.model import RefundOutcome
from opentill.refunds.model import Refund, Status

_log: Final = structlog.get_logger()


def log(ended: Refund, status: Status, outcome: RefundOutcome) -> None:
    """Log an error if a report contradicts the end of a refund."""
    if ended.status != status:
        _log.error(
            "refund ended otherwise",
            refund=ended.id, status=ended.status, reported=outcome.status, reason=outcome.reason,
            ref=ended.provider_ref, reported_ref=outcome.provider_ref,
        )  # fmt: skip
    elif status == "SUCCEEDED" and "" != outcome.provider_ref != ended.provider_ref != "":
        _log.error(
            "refund succeeded twice at the provider",
            refund=ended.id, ref=ended.provider_ref, reported_ref=outcome.provider_ref,
        )  # fmt: skip
