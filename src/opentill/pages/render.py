"""Renders customers' pages from structs with Jinja2.

Autoescape escapes every value, and an undefined name in a template is an error. The functions are
pure, so that tests can render the page of each state.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from opentill.core.links import safe_url
from opentill.core.money import Money
from opentill.gateways.model import Method
from opentill.pages import labels, model
from opentill.receipts import layout
from opentill.receipts.model import masked
from opentill.web import accent, assets, language, pictures, templates
from opentill.web.language import Localizer
from opentill.web.responses import Trouble

# After these numbers of seconds, the waiting page reloads: first, second time and so on.
POLLS_S: Final = (2, 2, 2, 3, 3, 4, 5, 6, 8, 10, 15, 20, 30)
_LEAVE_AFTER_S: Final = 5
_EXAMPLE_PRICE: Final = Money(2_400, "USD")  # in the picture of a payment page


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """One view of a page: its language, time (Unix ms) and the service's public address."""

    localizer: Localizer
    now: int
    public_url: str = ""
    checks: int = 0  # how often the waiting page has reloaded so far
    hold: bool = False  # whether the customer has stopped automatic reloads and redirects
    has_returned: bool = False  # whether the customer has just come back from the bank
    test_mode: bool = False  # whether no real money can be paid in this deployment

    @property
    def base(self) -> str:
        """The path of the public address, a prefix of all paths."""
        return templates.base_path(self.public_url)

    @property
    def secure(self) -> bool:
        """Whether the customer's browser uses HTTPS."""
        return self.public_url.startswith("https:")


class Refresh(msgspec.Struct, frozen=True):
    """An automatic redirect or reload of the browser after some seconds."""

    after_s: int
    address: str


class Page(msgspec.Struct, frozen=True):
    """A page as HTML and, if it shows a picture of another origin, that origin."""

    html: str
    picture_origin: str | None = None


def open_page(
    payment: model.Payment,
    visit: Visit,
    entries: model.Entries | None = None,
    errors: dict[str, str] | None = None,
) -> Page:
    """Render the payment form. ``errors``: field → text."""
    if entries is None:
        entries = model.Entries(payment.email, payment.name, model.preselected(payment))
    return _payment_page(
        "open.html",
        payment,
        visit,
        entries=entries,
        errors=errors or {},
        decline=model.decline_of(payment),
        unfinished=model.unfinished(payment),
        has_returned=visit.has_returned,
        cancel_url=_shop_address(payment, payment.cancel_url),
    )


def status_page(payment: model.Payment, visit: Visit, state: model.State) -> Page:
    """Render the page of any state except "open"."""
    success, cancel = (
        _shop_address(payment, url) for url in (payment.success_url, payment.cancel_url)
    )
    leave = success if state == "paid" else cancel
    refresh = None
    if state == "waiting":
        delay = POLLS_S[min(visit.checks, len(POLLS_S) - 1)]
        refresh = Refresh(delay, path(payment, visit, n=str(visit.checks + 1)))
    elif state == "paid" and leave:
        refresh = Refresh(_LEAVE_AFTER_S, leave)
    return _payment_page(
        "status.html",
        payment,
        visit,
        refresh=None if visit.hold else refresh,
        state=state,
        reason=model.final_reason(payment),
        leave=leave,
        check=path(payment, visit, n=str(visit.checks + 1)),
        hold=path(payment, visit, hold="1"),
        receipt=f"{visit.base}/receipt/{payment.session_id}"
        f"?{urlencode({'lang': visit.localizer.language})}",
    )


def continue_page(payment: model.Payment, visit: Visit, attempt: model.Attempt) -> Page:
    """Render the page that leads to the bank: by a link, a QR code or transfer details.

    It must not be the response to the form's POST, because ``form-action 'self'`` blocks a form
    whose response redirects to another origin.
    """
    action_url = safe_url(attempt.action_url)
    kind, refresh = "transfer", None
    if action_url:
        kind, refresh = "bank", Refresh(0, action_url)
    elif attempt.method != "BANK_TRANSFER":
        kind = "qr"
        delay = max(POLLS_S[min(visit.checks, len(POLLS_S) - 1)], 3)
        address = path(payment, visit, "continue", attempt.id, n=str(visit.checks + 1))
        refresh = Refresh(delay, address)
    return _payment_page(
        "continue.html",
        payment,
        visit,
        refresh=None if visit.hold else refresh,
        kind=kind,
        attempt=attempt,
        host=templates.isolated(urlsplit(action_url).hostname or "" if action_url else ""),
        qr=f"{visit.base}/checkout/{payment.session_id}/qr/{attempt.id}.svg",
        hold=path(payment, visit, "continue", attempt.id, hold="1"),
    )


def deposit_page(
    payment: model.Payment,
    visit: Visit,
    attempt: model.Attempt,
    deposit: model.Deposit,
    symbol: str = "",
) -> Page:
    """Render the page with the address to which the customer sends tokens.

    ``symbol`` is the token that the customer has chosen; the first one if there is no such token.
    """
    token = next((each for each in deposit.tokens if each.symbol == symbol), deposit.tokens[0])
    address = partial(path, payment, visit, "continue", attempt.id)
    delay = max(POLLS_S[min(visit.checks, len(POLLS_S) - 1)], 3)
    next_page = address(token=token.symbol, n=str(visit.checks + 1))
    return _payment_page(
        "deposit.html",
        payment,
        visit,
        refresh=None if visit.hold else Refresh(delay, next_page),
        attempt=attempt,
        deposit=deposit,
        token=token,
        choices=[(each.symbol, address(token=each.symbol)) for each in deposit.tokens],
        qr=f"{visit.base}/checkout/{payment.session_id}/qr/{attempt.id}.svg?token={token.symbol}",
        hold=address(token=token.symbol, hold="1"),
    )


def receipt_page(
    receipt: model.Receipt,
    visit: Visit,
    *,
    zone: str = "",
    zone_error: bool = False,
    no_pdf: bool = False,
) -> Page:
    """Render the receipt of a paid session.

    ``zone`` is the reader's input, and may be invalid. ``no_pdf``: its PDF could not be drawn.
    """
    own_path = f"{visit.base}/receipt/{receipt.payment.session_id}"
    return _payment_page(
        "receipt.html",
        receipt.payment,
        visit,
        receipt=receipt.receipt,
        own_zone=receipt.own_zone,
        sums=layout.sum_lines(receipt.receipt, visit.localizer, receipt.own_zone),
        seller=layout.seller_lines(receipt.receipt, visit.localizer),
        zone=zone,
        zone_error=zone_error,
        no_pdf=no_pdf,
        own_path=own_path,
        pdf=f"{own_path}.pdf?{urlencode({'lang': visit.localizer.language})}",
    )


def trouble_page(trouble: Trouble, visit: Visit, again: str | None = None) -> Page:
    """Render an error page; ``again`` is the path of its link to try again."""
    return _page("trouble.html", visit, refresh=None, trouble=trouble, again=again, base=visit.base)


def front_page(
    visit: Visit,
    agreement_path: str,
    operator: model.Operator,
    methods: Sequence[Method],
    *,
    takes_applications: bool,
) -> Page:
    """Render the front page of the deployment."""
    return _page(
        "landing.html",
        visit,
        refresh=None,
        base=visit.base,
        agreement_path=agreement_path,
        operator=operator,
        methods=methods,
        example_price=_EXAMPLE_PRICE,
        takes_applications=takes_applications,
    )


def link_page(
    link: model.Link,
    visit: Visit,
    entries: model.LinkEntries,
    errors: dict[str, str] | None = None,
) -> Page:
    """Render the page of a payment link. ``errors``: field → text."""
    own_path = f"{visit.base}/pay/{link.slug}?{urlencode({'lang': visit.localizer.language})}"
    unfinished_path = None
    if link.unfinished is not None:
        unfinished_path = f"{visit.base}/checkout/{link.unfinished}?lang={visit.localizer.language}"
    return _shop_page(
        "link.html",
        link,
        visit,
        payment=link,
        entries=entries,
        errors=errors or {},
        own_path=own_path,
        unfinished_path=unfinished_path,
    )


def refusal_page(visit: Visit, code: int, message: str) -> Page:
    """Render the page of a refused Epay submission, which has no payment."""
    return _page("refusal.html", visit, refresh=None, code=code, message=message)


def path(payment: model.Payment, visit: Visit, *parts: str, **query: str) -> str:
    """Return a path below the payment's page, with the language in the query."""
    url_path = "/".join((visit.base, "checkout", payment.session_id, *parts))
    return f"{url_path}?{urlencode({'lang': visit.localizer.language, **query})}"


def _payment_page(
    template: str,
    payment: model.Payment,
    visit: Visit,
    refresh: Refresh | None = None,
    **values: object,
) -> Page:
    return _shop_page(
        template,
        payment,
        visit,
        refresh=refresh,
        payment=payment,
        link=partial(path, payment, visit),
        **values,
    )


def _shop_page(
    template: str, offer: model.Payment | model.Link, visit: Visit, **values: object
) -> Page:
    picture = pictures.displayable_address(offer.item.image, secure=visit.secure)
    brand = offer.brand
    return _page(
        template,
        visit,
        picture_origin=picture and pictures.origin_of(picture),
        test_mode=not offer.livemode,
        picture=picture,
        logo=brand.logo and visit.base + brand.logo,
        accent=brand.accent and visit.base + accent.address(brand.accent),
        mail_address=brand.email and quote(brand.email, safe="@"),
        help_address=safe_url(brand.url),
        terms_address=safe_url(brand.terms),
        base=visit.base,
        **{"refresh": None, "cancel_url": None, **values},
    )


def _page(
    template: str,
    visit: Visit,
    picture_origin: str | None = None,
    *,
    test_mode: bool | None = None,
    **values: object,
) -> Page:
    html = ENVIRONMENT.get_template(template).render(
        localizer=visit.localizer,
        languages=language.names("customer"),
        now=visit.now,
        asset=assets.finder(visit.base),
        isolated=templates.isolated,
        test_mode=visit.test_mode if test_mode is None else test_mode,
        **visit.localizer.functions,
        **values,
    )
    return Page(html, picture_origin)


def _shop_address(payment: model.Payment, address: str | None) -> str | None:
    """Return the merchant's address with the session's id in place of the placeholder."""
    return safe_url((address or "").replace("{CHECKOUT_SESSION_ID}", payment.session_id))


ENVIRONMENT: Final = templates.create_environment(
    Path(__file__).parent / "templates", labels=labels
)
ENVIRONMENT.filters["masked"] = masked
