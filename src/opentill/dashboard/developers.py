"""The start page for developers: the first tasks with the API, and then its figures."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from opentill import merchants, orders, webhooks
from opentill.dashboard import developers_overview, page_helpers
from opentill.dashboard.developers_overview import Overview
from opentill.db.database import Tx
from opentill.merchants import Key
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.reference import highlighting, samples
from opentill.reference.samples import Sample
from opentill.web.translations import N_
from opentill.webhooks import DeliveryAttempt, Endpoint

PLACE: Final = f"{DASHBOARD_PATH}/developers"
_KEYS: Final = 3  # the newest API keys that are listed


async def show(request: PageRequest) -> Response:
    """Show the first tasks, and which of them are done; once they are, figures of the last days.

    A task is None if the person may not see its page.
    """
    merchant_id, access = request.merchant_id, request.access
    zone = page_helpers.zone_of(request)
    stored_endpoints: list[Endpoint] = []
    keys = endpoints = None
    failing = 0
    endpoint_id = delivery = key_hint = ""
    overview: Overview | None = None
    valid_keys: list[Key] = []
    attempt: DeliveryAttempt | None = None
    async with request.app.db.connection() as tx:
        if access.may("keys.read"):
            valid_keys = [
                key for key in await merchants.keys(tx, merchant_id) if key.opens(request.now)
            ]
            keys = bool(valid_keys)
            key_hint = valid_keys[-1].hint if valid_keys else ""
        if access.may("endpoints.read"):
            stored_endpoints = await webhooks.search(tx, merchant_id)
            endpoints = bool(stored_endpoints)
            failing = await webhooks.count_failing(tx, merchant_id, stored_endpoints)
            endpoint_id = stored_endpoints[0].id if endpoints else ""
            delivery, tried = await _last_delivery(tx, merchant_id, stored_endpoints)
            if tried is not None:
                endpoint_id = tried.id
                attempt = await _last_attempt(tx, tried)
        sessions = bool(await orders.list_newest(tx, merchant_id, 1))
        if delivery and sessions and keys is not False:
            overview = await developers_overview.read(tx, request, zone, stored_endpoints)
    api_url = f"{request.app.settings.public_url}/v1"
    return render.page(
        request,
        "developers.html",
        api_url=api_url,
        samples=session_samples(api_url),
        key_hint=key_hint,
        overview=overview,
        newest_keys=valid_keys[::-1][:_KEYS] if overview else [],
        zone=zone,
        keys=keys,
        sessions=sessions,
        endpoints=endpoints,
        failing=failing,
        endpoint_id=endpoint_id,
        delivery=delivery,
        attempt=attempt,
    )


async def _last_delivery(
    tx: Tx, merchant_id: str, endpoints: Sequence[Endpoint]
) -> tuple[str, Endpoint | None]:
    """Return how the newest delivery of any endpoint stands, and its endpoint.

    A 2xx at one endpoint is enough for SUCCEEDED. Otherwise it is FAILED, also while it is
    repeated, PENDING before the first attempt, and "" without any delivery.
    """
    activity = await webhooks.find_activity(tx, merchant_id)
    by_state = {
        activity[endpoint.id].last_state: endpoint
        for endpoint in endpoints
        if endpoint.id in activity
    }
    for state in ("SUCCEEDED", "FAILED", "RETRYING", "PENDING"):
        if state in by_state:
            return "FAILED" if state == "RETRYING" else state, by_state[state]
    return "", None


async def _last_attempt(tx: Tx, endpoint: Endpoint) -> DeliveryAttempt | None:
    """Return the newest attempt of an endpoint's newest delivery."""
    deliveries = await webhooks.list_latest_deliveries(tx, endpoint, None, 1)
    attempts = deliveries[0][1] if deliveries else []
    return attempts[-1] if attempts else None


def session_samples(api_url: str) -> list[tuple[Sample, Markup]]:
    """Return programs that create a checkout session, each with its highlighted code."""
    item = {"name": "Tea, 100 g", "price": "9.99", "currency": "USD"}
    programs = samples.all_samples(
        samples.Request(
            operation_id="createCheckoutSession",
            method="POST",
            url=f"{api_url}/checkouts",
            ids=(),
            credential=samples.Credential("x-api-key", "", "OPENTILL_KEY", "API key"),
            body={"item": item},
            media_type="application/json",
            response_type="application/json",
            is_list=False,
            has_data=True,
        )
    )
    return [(sample, highlighting.highlight(sample.text, sample.language)) for sample in programs]


# Every role that may see one of the pages below has this permission too.
pages: Final = (
    Page("GET", PLACE, "endpoints.read", show, menu=N_("Developers"), group="developers"),
)
