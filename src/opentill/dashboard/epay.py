"""A merchant's Epay credentials, and the notifications of its paid Epay orders."""

from collections.abc import Awaitable, Callable
from typing import Final, get_args
from zoneinfo import ZoneInfo

import msgspec
import structlog
from starlette.responses import Response

from opentill import epay, merchants, people
from opentill.core.errors import ConfigurationError, Invalid, NotFound
from opentill.dashboard import developers, page_helpers
from opentill.db.database import Tx
from opentill.epay import (
    AddressCheck,
    Credentials,
    NewCredentials,
    NewKeyPair,
    NoticeState,
    Versions,
)
from opentill.gateways.epay import rsa_signature
from opentill.portal import form_ids, lists, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "on the page of Epay"
_MOST: Final = 100  # the list shows at most this many notifications
_STATES: Final[tuple[NoticeState, ...]] = get_args(NoticeState)
_VERSIONS: Final[tuple[Versions, ...]] = get_args(Versions)
_ENTER_PID: Final = N_("Enter the pid of these credentials")
_NO_KEY: Final = N_("Generate a key pair or enter a public key first")
_MISSING_SETTING: Final = N_(
    "Nothing was changed: the operator has to set up the service’s key first"
)
_log: Final = structlog.get_logger()


async def _find_credentials(tx: Tx, merchant_id: str) -> Credentials | None:
    try:
        return await epay.find(tx, merchant_id)
    except NotFound:
        return None


async def show(request: PageRequest) -> Response:
    """Show the credentials and the last notifications."""
    return await _render_epay(request, filters=True)


async def _render_epay(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    *,
    entries: dict[str, str] | None = None,
    created: NewCredentials | NewKeyPair | None = None,
    filters: bool = False,
    check: AddressCheck | None = None,
) -> Response:
    """Show the page, with the entries of a form or with a key that was just created.

    ``filters``: show the filters of the list, which belong to the page's own address.
    """
    chosen = lists.choice(request, "state", _STATES)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        credentials = await _find_credentials(tx, request.merchant_id)
        platform_key = await epay.find_platform_key(tx)
        notices = await epay.list_notices(tx, request.merchant_id, chosen, _MOST)
    addresses = await epay.list_addresses(request.app.db, request.merchant_id)
    return render.page(
        request,
        "epay.html",
        status,
        scripts=created is not None,
        zone=ZoneInfo(merchant.time_zone),
        credentials=credentials,
        filters=filters and credentials is not None,
        url=f"{request.app.settings.public_url}/epay/",
        notices=notices,
        addresses=addresses,
        check=check,
        most=_MOST,
        chosen=chosen,
        entries=entries or {},
        new=created if isinstance(created, NewCredentials) else None,
        new_pair=created if isinstance(created, NewKeyPair) else None,
        platform_key=platform_key,
        pem_public_key=rsa_signature.pem_public_key,
        pem_private_key=rsa_signature.pem_private_key,
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


async def enable(request: PageRequest) -> Response:
    """Enable the Epay API, and show the key once if it is new."""
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> NewCredentials:
        await merchants.lock(tx, request.merchant_id)
        existing_credentials = await _find_credentials(tx, request.merchant_id)
        new = await epay.enable(
            tx, request.app.settings, request.merchant_id, request.now, actor=actor
        )
        return new if existing_credentials is None else msgspec.structs.replace(new, key="")

    return await _create(request, work)


async def rotate(request: PageRequest) -> Response:
    """Replace the key at once, and show the new one once."""
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> NewCredentials:
        return await epay.rotate(
            tx, request.app.settings, request.merchant_id, request.now, actor=actor
        )

    return await _create(request, work)


async def _create(
    request: PageRequest, work: Callable[[Tx], Awaitable[NewCredentials]]
) -> Response:
    """Create credentials, and show their key if it is new."""
    try:
        new = await form_ids.create_secret(request, work, NewCredentials)
    except ConfigurationError as error:
        return await _show_missing_setting(request, error)
    return await _render_epay(request, created=new) if new.key else _redirect_to_epay(request)


async def disable(request: PageRequest) -> Response:
    """Disable the Epay API. Idempotent."""
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> None:
        await merchants.lock(tx, request.merchant_id)
        credentials = await epay.find(tx, request.merchant_id)
        if credentials.state == "ENABLED":
            await epay.disable(tx, request.merchant_id, request.now, actor=actor)

    await request.app.db.run(work)
    return _redirect_to_epay(request, done="disabled")


async def _check_confirmation(request: PageRequest, field: str) -> Response | None:
    """Check that a form's ``field`` repeats the merchant's pid; return the page with its error.

    Raises NotFound if the merchant has no pid.
    """
    form = await request.form()
    async with request.app.db.connection() as tx:
        credentials = await epay.find(tx, request.merchant_id)
    if form.get(field, "").strip() == str(credentials.pid):
        return None
    return await _render_epay(request, 400, {field: _ENTER_PID}, entries=form)


async def check_rotation(request: PageRequest) -> Response | None:
    """Check that the person has confirmed that the key is replaced."""
    return await _check_confirmation(request, "rotate")


async def check_disabling(request: PageRequest) -> Response | None:
    """Check that the person has confirmed that Epay is disabled."""
    return await _check_confirmation(request, "disable")


async def set_versions(request: PageRequest) -> Response:
    """Set which versions of the API the merchant accepts. Idempotent."""
    actor = people.actor_of(request.login, _REASON)
    chosen = (await request.form()).get("versions", "")
    versions = _VERSIONS[_VERSIONS.index(chosen)]  # `check_versions` has checked it
    try:
        await request.app.db.run(
            lambda tx: epay.set_versions(
                tx, request.merchant_id, versions, request.now, actor=actor
            )
        )
    except Invalid:
        return await _render_epay(request, 409, {"versions": _NO_KEY})
    return _redirect_to_epay(request, done="versions")


async def check_versions(request: PageRequest) -> Response | None:
    """Check that a version was chosen for which there is a key."""
    versions = (await request.form()).get("versions", "")
    async with request.app.db.connection() as tx:
        credentials = await epay.find(tx, request.merchant_id)
    if versions not in _VERSIONS:
        return await _render_epay(request, 400, {"versions": N_("Choose one of the versions")})
    if versions != "V1" and credentials.public_key is None:
        return await _render_epay(request, 409, {"versions": _NO_KEY})
    return None


async def create_key_pair(request: PageRequest) -> Response:
    """Replace the key of V2 by a new pair, and show its private half once."""
    actor = people.actor_of(request.login, _REASON)
    secret_key, is_first = request.app.settings.secret_key, not (await request.form()).get("pair")

    async def work(tx: Tx) -> NewKeyPair:
        await merchants.lock(tx, request.merchant_id)
        credentials = await epay.find(tx, request.merchant_id)
        if is_first and credentials.public_key is not None:  # somebody else was faster
            raise Invalid("pair", "pair must be the pid, to replace a key")
        return await epay.create_key_pair(
            tx, secret_key, request.merchant_id, request.now, actor=actor
        )

    try:
        new_pair = await form_ids.create_secret(request, work, NewKeyPair)
    except ConfigurationError as error:
        return await _show_missing_setting(request, error)
    except Invalid:
        return await _render_epay(request, 409, {"pair": _ENTER_PID})
    return await _render_epay(request, created=new_pair)


async def check_key_pair(request: PageRequest) -> Response | None:
    """Check that the person has confirmed that a key is replaced, if the form replaces one."""
    replaces = (await request.form()).get("pair")
    return await _check_confirmation(request, "pair") if replaces else None


async def set_public_key(request: PageRequest) -> Response:
    """Replace the key of V2 by a public key of the shop. Idempotent."""
    actor = people.actor_of(request.login, _REASON)
    text, secret_key = (await request.form()).get("key", ""), request.app.settings.secret_key
    try:
        await request.app.db.run(
            lambda tx: epay.set_public_key(
                tx, secret_key, request.merchant_id, text, request.now, actor=actor
            )
        )
    except ConfigurationError as error:
        return await _show_missing_setting(request, error)
    return _redirect_to_epay(request, done="key")


async def check_public_key(request: PageRequest) -> Response | None:
    """Check that the text is a public key. A private key is not shown again."""
    form = await request.form()
    try:
        epay.read_public_key(form.get("key", ""))
    except epay.PrivateHalf:
        error = N_("This is a private key, which only your shop may have. Enter its public half")
        return await _render_epay(request, 400, {"key": error})
    except Invalid:
        error = N_("Enter an RSA public key of 2048 to 4096 bits, as PEM or one line of Base64")
        return await _render_epay(request, 400, {"key": error}, entries=form)
    return None


async def _show_missing_setting(
    request: PageRequest, error: ConfigurationError | Invalid
) -> Response:
    _log.error("Epay credentials cannot be made", reason=str(error))
    return await _render_epay(request, 503, {"epay": _MISSING_SETTING})


async def resend(request: PageRequest) -> Response:
    """Send a notification again, with a new series of attempts."""
    form, actor = await request.form(), people.actor_of(request.login, _REASON)
    order_id = form.get("order", "")
    try:
        await request.app.db.run(
            lambda tx: epay.resend(tx, request.merchant_id, order_id, request.now, actor=actor)
        )
    except Invalid:
        return await _render_epay(
            request,
            409,
            {"notices": N_("This order was not paid, so there is nothing to notify of")},
        )
    return _redirect_to_epay(request, done="resent")


async def check(request: PageRequest) -> Response:
    """Check the address of an order, and show whether notifications would be accepted.

    Raises NotFound and TooManyRequests.
    """
    await page_helpers.limit_resends(request)
    app, order_id = request.app, (await request.form()).get("order", "")
    try:
        result = await epay.check_address(
            app.db, app.outgoing, app.settings, request.merchant_id, order_id, request.now
        )
    except (Invalid, ConfigurationError) as error:
        return await _show_missing_setting(request, error)
    return await _render_epay(request, check=result)


def _redirect_to_epay(request: PageRequest, **query: str) -> Response:
    return page_helpers.redirect(request, "developers", "epay", **query)


_PLACE: Final = f"{developers.PLACE}/epay"
pages: Final = (
    Page("GET", _PLACE, "epay.read", show, menu=N_("Epay"), group="developers"),
    Page("POST", f"{_PLACE}/enable", "epay.manage", enable, proves=N_("Enable Epay")),
    Page(
        "POST",
        f"{_PLACE}/rotate",
        "epay.manage",
        rotate,
        fields=("rotate",),
        check=check_rotation,
        proves=N_("Replace the Epay key"),
    ),
    Page(
        "POST",
        f"{_PLACE}/disable",
        "epay.manage",
        disable,
        fields=("disable",),
        check=check_disabling,
        proves=N_("Disable Epay"),
    ),
    Page(
        "POST",
        f"{_PLACE}/versions",
        "epay.manage",
        set_versions,
        fields=("versions",),
        check=check_versions,
        proves=N_("Choose the versions of Epay"),
    ),
    Page(
        "POST",
        f"{_PLACE}/key-pair",
        "epay.manage",
        create_key_pair,
        fields=("pair",),
        check=check_key_pair,
        proves=N_("Generate an Epay key pair"),
    ),
    Page(
        "POST",
        f"{_PLACE}/public-key",
        "epay.manage",
        set_public_key,
        fields=("key",),
        check=check_public_key,
        proves=N_("Replace the Epay public key"),
    ),
    Page("POST", f"{_PLACE}/check", "events.resend", check, fields=("order",)),
    Page("POST", f"{_PLACE}/resend", "events.resend", resend, fields=("order",)),
)
