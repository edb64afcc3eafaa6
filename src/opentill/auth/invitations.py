"""The pages to which mailed links lead: invitations, new passwords, and keeping second factors."""

from typing import Final

from starlette.responses import Response

from opentill import merchants, people
from opentill.core.errors import Invalid, NotFound, TooManyRequests
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.people import Link, Person, passkeys
from opentill.people.lifetimes import HOUR_MS
from opentill.portal import login_cookies, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_


async def _read(request: PageRequest) -> tuple[Link, Person | None, str]:
    """Return a link, its person, and the name of its merchant. Raises NotFound."""
    async with request.app.db.connection() as tx:
        link, person = await people.read_link(tx, request.ids["token"], request.now)
        name = ""
        if link.merchant_id is not None:
            name = (await merchants.find(tx, link.merchant_id)).name
    return link, person, name


async def show_invitation(request: PageRequest) -> Response:
    """Show an invitation, with a form for a new account and a link to log in with an existing one.

    A person who is logged in needs only a button. To everybody else the page does not show whether
    an account exists, because the sender of the invitation may see the link too.
    """
    return await _invitation(request)


async def _invitation(
    request: PageRequest, name: str = "", errors: dict[str, str] | None = None
) -> Response:
    link, person, merchant = await _read(request)
    if link.kind != "INVITATION":
        return render.see_other(request, f"/reset/{request.ids['token']}")
    login = request.optional_login
    mine = person is not None and login is not None and login.person_id == person.id
    if mine and login is not None:
        name = name or login.name
    return render.page(
        request,
        "invitation.html",
        400 if errors else 200,
        scripts=True,
        link=link,
        merchant=merchant,
        mine=mine,
        confirmed=person is not None and person.confirmed,
        name=name,
        errors=errors or {},
    )


async def take_invitation(request: PageRequest) -> Response:
    """Accept an invitation as a new person, or as the person who is logged in."""
    form, token = await request.form(), request.ids["token"]
    link, person, _ = await _read(request)
    login = request.optional_login
    own_login = login if person is not None and login and login.person_id == person.id else None
    if person is not None and own_login is not None and person.confirmed:
        await request.app.db.run(lambda tx: people.accept(tx, token, own_login, request.now))
    else:
        name, password = form.get("name", ""), form.get("password", "")
        values = (request.app.db, token, name, password, request.browser, request.now)
        try:
            if own_login is not None:
                new_login = await people.accept_after_reset(*values, login=own_login)
            else:
                new_login = await people.join(*values)
        except NotFound:
            if person is None or login is not None:
                raise
            return render.see_other(request, f"/login?next=/invite/{token}")
        except Invalid as problem:
            return await _invitation(request, name, _errors(problem))
        settings = request.app.settings
        request.new_cookies += [
            login_cookies.logged_in(settings, new_login.token),
            login_cookies.remember_person(settings, request.headers, new_login.person),
        ]
    if link.merchant_id is None:
        return render.see_other(request, CONSOLE_PATH)
    return render.see_other(request, f"/dashboard/{link.merchant_id}/")


def _errors(problem: Invalid) -> dict[str, str]:
    """Return the text for the invalid field."""
    if problem.field != "password":
        return {"name": N_("Enter your name, at most 200 characters")}
    common = "common" in (problem.reason or "")
    return {
        "password": N_(
            "This password is easily guessed. Choose one that is not "
            "common and not made of your name or address"
        )
        if common
        else N_("Choose a password of 12 to 256 characters")
    }


async def show_reset(request: PageRequest) -> Response:
    """Show the form for a new password."""
    return await _reset(request)


async def _reset(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    wait: str = "",
) -> Response:
    link, person, _ = await _read(request)
    if link.kind != "RESET" or person is None:
        return render.see_other(request, f"/invite/{request.ids['token']}")
    site, person_id = request.site, person.id

    async def work(tx: Tx) -> tuple[people.Factors, str | None]:
        factors = await people.factors_of(tx, person_id)
        if site is None or not factors.passkeys:
            return factors, None
        return factors, await passkeys.options(tx, site, request.now, person_id)

    factors, options = await request.app.db.run(work)
    hours = request.app.settings.factor_reset_hours
    return render.page(
        request, "reset.html", status, link=link, errors=errors or {}, wait=wait, options=options,
        scripts=True, factors=factors,
        hours=request.localizer.duration(hours * HOUR_MS),
    )  # fmt: skip


async def choose_password(request: PageRequest) -> Response:
    """Set the new password; the person then logs in with it."""
    form, settings, token = await request.form(), request.app.settings, request.ids["token"]
    try:
        new_password = people.NewPassword(
            password=form.get("password", ""),
            browser=request.browser,
            code=form.get("code", ""),
            proved=await _proves_passkey(request, form.get("credential", "")),
            lost=form.get("lost") == "yes",
            wait_ms=settings.factor_reset_hours * HOUR_MS,
            enrolls=settings.livemode,
        )
        result = await people.choose_password(
            request.app.db, token, new_password, settings.secret_key, request.now
        )
    except Invalid as problem:
        return await _reset(request, 400, _errors(problem))
    except people.FactorNeeded:
        return await _reset(
            request,
            400,
            {"code": N_("Enter a code, or check that you have lost your second factors")},
        )
    except people.WrongCredentials:
        error = (
            N_("This passkey was not accepted. Please try again")
            if form.get("credential")
            else N_("This code is wrong or was already used")
        )
        return await _reset(request, 401, {"code": error})
    except TooManyRequests as problem:
        wait = request.localizer.duration(problem.retry_after_s * 1000)
        return await _reset(
            request, 429, {"code": N_("There were too many attempts. Try again in {wait}")}, wait
        )
    if result.login is not None:
        request.new_cookies.append(login_cookies.logged_in(settings, result.login.token))
        return render.see_other(request, "/security?second=1")
    request.new_cookies.append(login_cookies.logged_out(settings))
    return render.see_other(request, "/login?changed=" + ("later" if result.closed_until else "1"))


async def _proves_passkey(request: PageRequest, credential: str) -> bool:
    """Verify a passkey of the link's person; return False if ``credential`` is empty.

    Raises WrongCredentials.
    """
    if not credential:
        return False
    link, person, _ = await _read(request)
    if link.kind != "RESET" or person is None:
        raise NotFound
    site = request.required_site
    await passkeys.prove_person(request.app.db, person.id, credential, site, request.now)
    return True


# ── stopping a reset of factors ──


async def show_keep(request: PageRequest) -> Response:
    """Ask whether to keep the second factors."""
    async with request.app.db.connection() as tx:
        reset = await people.lost_factors.read_stop_link(tx, request.ids["token"])
    return render.page(request, "keep_factors.html", reset=reset)


async def keep(request: PageRequest) -> Response:
    """Stop the reset of a person's factors."""

    async def work(tx: Tx) -> None:
        reset = await people.lost_factors.read_stop_link(tx, request.ids["token"])
        actor = Actor(people.named(reset.email, reset.person_id), "by the link that was mailed")
        await people.lost_factors.stop(tx, reset.id, request.now, actor=actor)

    await request.app.db.run(work)
    return render.see_other(request, "/login?kept=1")


pages: Final = (
    Page("GET", "/invite/{token}", "anyone", show_invitation),
    Page("POST", "/invite/{token}", "anyone", take_invitation),
    Page("GET", "/reset/{token}", "anyone", show_reset),
    Page("POST", "/reset/{token}", "anyone", choose_password),
    Page("GET", "/keep-factors/{token}", "anyone", show_keep),
    Page("POST", "/keep-factors/{token}", "anyone", keep),
)
