"""``GET /v1/config/legal/merchant-services-agreement`` (contract.md#agreement)."""

from typing import Final

from opentill.agreement import service
from opentill.agreement.model import Agreement
from opentill.http.operations import ApiRequest, Nothing, Operation


async def get(request: ApiRequest[Nothing, Nothing]) -> Agreement:
    """Return the current agreement. Reading it signs nothing."""
    return service.current(request.app.settings)


operations: Final = (
    Operation(
        method="GET",
        path="/v1/config/legal/merchant-services-agreement",
        tag="Config",
        summary="Get the merchant services agreement",
        description="Needs no API key. Reading the agreement neither signs it nor changes the "
        "account's agreement status.",
        response=Agreement,
        read=get,
        auth=False,
        response_example={
            "agreementVersion": "1.0",
            "effectiveDate": "2026-01-15",
            "effectiveDateDisplay": "January 15, 2026",
            "templateSha256": "9f2b1c6f0d3e5a7b8c9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d",
            "renderedDocumentSha256": (
                "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
            ),
            "markdownContent": "# Merchant Services Agreement\n…",
            "acceptanceStatement": "I have read the Merchant Services Agreement and accept it.",
            "actionLabel": "Accept and continue",
            "documentUrl": "https://pay.example.com/legal/merchant-services-agreement",
        },
    ),
)
