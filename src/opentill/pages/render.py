"""Pages out of structs: the only place that fills templates in.

Every value is escaped by Jinja2's autoescape; an unknown name in a template is an error and never
an empty space. The functions are pure, so that each page of each state can be made in a test.
"""

from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from opentill.core.links import safe_url
from opentill.pages import labels, model
from opentill.web import accent, assets, language, pictures, templates
from opentill.web.language import Localizer

# seconds until the waiting page asks again: soon at first, seldom later
POLLS_S: Final = (2, 2, 2, 3, 3, 4, 5, 6, 8, 10, 15, 20, 30)
_LEAVE_AFTER_S: Final = 5


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks at the page and when: language, time (Unix ms), where the service is reached."""

    localizer: Localizer
    now: int
    public_url: str = ""
    checks: int = 0  # how often a waiting page has checked already
    hold: bool = False  # the customer has asked the page not to move on by itself
    test_mode: bool = False  # no real money can be paid in this deployment

    @property
    def base(self) -> str:
        """The path that the public address puts before every path of ours."""
        return templates.base_path(self.public_url)

    @property
    def secure(self) -> bool:
        """Whether the customer's browser speaks HTTPS with us."""
        return self.public_url.startswith("https:")


class Refresh(msgspec.Struct, frozen=True):
    """Where the browser goes by itself, and after how many seconds."""

    after_s: int
    address: str


class Page(msgspec.Struct, frozen=True):
    """A page as HTML and, if it shows a picture from elsewhere, the origin of that picture."""

    html: str
    picture_origin: str | None = None


def open_page(
    payment: model.Payment,
    visit: Visit,
    entries: model.Entries | None = None,
    errors: dict[str, str] | None = None,
) -> Page:
    """Draw the payment form. ``errors``: field → the text that says what is wrong."""
    if entries is None:
        first = payment.methods[0] if payment.methods else ""
        entries = model.Entries(payment.email, payment.name, first)
    return _payment_page(
        "open.html",
        payment,
        visit,
        entries=entries,
        errors=errors or {},
        decline=model.decline_of(payment),
        unfinished=model.unfinished(payment),
        cancel_url=_shop_address(payment, payment.cancel_url),
    )


def status_page(payment: model.Payment, visit: Visit, state: model.State) -> Page:
    """Draw the page of any state but the open one."""
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
        leave=leave,
        check=path(payment, visit, n=str(visit.checks + 1)),
        hold=path(payment, visit, hold="1"),
        receipt=f"{visit.base}/receipt/{payment.session_id}"
        f"?{urlencode({'lang': visit.localizer.language})}",
    )


def continue_page(payment: model.Payment, visit: Visit, attempt: model.Attempt) -> Page:
    """Draw the way to the bank: an address to go to, a code to scan, or how to transfer.

    It is a GET page and never the response to the form's POST, because ``form-action 'self'``
    rightly stops a form whose response leads elsewhere.
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


def receipt_page(
    receipt: model.Receipt,
    visit: Visit,
    *,
    zone: str = "",
    zone_error: bool = False,
    no_pdf: bool = False,
) -> Page:
    """Draw the receipt of a paid session.

    ``zone`` is what its reader typed, perhaps no zone. ``no_pdf``: there could be no PDF of it.
    """
    here = f"{visit.base}/receipt/{receipt.payment.session_id}"
    return _payment_page(
        "receipt.html",
        receipt.payment,
        visit,
        receipt=receipt,
        zone=zone,
        zone_error=zone_error,
        no_pdf=no_pdf,
        here=here,
        pdf=f"{here}.pdf?{urlencode({'lang': visit.localizer.language})}",
    )


def trouble_page(trouble: model.Trouble, visit: Visit, again: str | None = None) -> Page:
    """Draw a page that has no payment to show; ``again`` is the path to try once more."""
    return _page("trouble.html", visit, refresh=None, trouble=trouble, again=again)


def link_page(
    link: model.Link,
    visit: Visit,
    entries: model.LinkEntries,
    errors: dict[str, str] | None = None,
) -> Page:
    """Draw the page of a payment link. ``errors``: field → the text about it."""
    here = f"{visit.base}/pay/{link.slug}?{urlencode({'lang': visit.localizer.language})}"
    going_on = None
    if link.unfinished is not None:
        going_on = f"{visit.base}/checkout/{link.unfinished}?lang={visit.localizer.language}"
    return _shop_page(
        "link.html",
        link,
        visit,
        payment=link,
        entries=entries,
        errors=errors or {},
        here=here,
        going_on=going_on,
    )


def refusal_page(visit: Visit, code: int, message: str) -> Page:
    """Draw the page of a submission that was refused, of which there is no payment."""
    return _page("refusal.html", visit, refresh=None, code=code, message=message)


def path(payment: model.Payment, visit: Visit, *parts: str, **query: str) -> str:
    """Return a path below the payment's page; the language goes along in the query."""
    place = "/".join((visit.base, "checkout", payment.session_id, *parts))
    return f"{place}?{urlencode({'lang': visit.localizer.language, **query})}"


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
    template: str, of: model.Payment | model.Link, visit: Visit, **values: object
) -> Page:
    picture, brand = pictures.displayable_address(of.item.image, secure=visit.secure), of.brand
    return _page(
        template,
        visit,
        picture_origin=picture and pictures.origin_of(picture),
        test_mode=not of.livemode,
        picture=picture,
        logo=brand.logo and visit.base + brand.logo,
        accent=brand.accent and visit.base + accent.address(brand.accent),
        mail_address=brand.email and quote(brand.email, safe="@"),
        help_address=safe_url(brand.url),
        terms_address=safe_url(brand.terms),
        base=visit.base,
        **{"refresh": None, **values},
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
    filled = (address or "").replace("{CHECKOUT_SESSION_ID}", payment.session_id)
    return safe_url(filled)


def masked(email: str) -> str:
    """Return enough of an address to know it by; receipts get passed on."""
    local, _, domain = email.rpartition("@")
    return f"{local[:1]}•••@{domain}"


ENVIRONMENT: Final = templates.create_environment(
    Path(__file__).parent / "templates", labels=labels
)
ENVIRONMENT.filters["masked"] = masked
