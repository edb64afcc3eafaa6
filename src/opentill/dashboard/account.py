"""Logging in and out."""

from typing import Final

from starlette.responses import Response

from opentill import people
from opentill.core.errors import TooManyRequests
from opentill.dashboard import cookies, render
from opentill.dashboard.model import Page
from opentill.dashboard.request import PageRequest, safe_next


async def show_login(request: PageRequest) -> Response:
    """Show the form, unless somebody is logged in already."""
    if request.known_login is not None:
        return render.see_other(request, request.next or "/dashboard")
    return render.page(request, "login.html", email="", next=request.next)


async def log_in(request: PageRequest) -> Response:
    """Log somebody in, and lead to where they wanted to go."""
    form = await request.form()
    email, goal = form.get("email", ""), safe_next(form.get("next", ""))
    settings, account = request.app.settings, people.normal(form.get("email", ""))
    given = people.Credentials(
        email=email,
        password=form.get("password", ""),
        browser=request.browser,
        known=cookies.knows(settings, request.cookies, account),
    )
    try:
        login = await people.log_in(request.app.db, given, request.now)
    except people.WrongCredentials:
        return render.page(
            request, "login.html", 401, email=email, next=goal, errors={"email": "error_login"}
        )
    except TooManyRequests as problem:
        return render.page(
            request,
            "login.html",
            429,
            {"retry-after": str(problem.retry_after_s)},
            email=email,
            next=goal,
            errors={"email": "error_wait"},
            wait=request.localizer.duration(problem.retry_after_s * 1000),
        )
    request.new_cookies += [
        cookies.logged_in(settings, login.token),
        cookies.know(settings, request.cookies, account),
    ]
    return render.see_other(request, goal or "/dashboard")


async def log_out(request: PageRequest) -> Response:
    """End the login, if there is one."""
    login = request.known_login
    if login is not None:
        await request.app.db.run(lambda tx: people.end(tx, login))
    request.new_cookies.append(cookies.logged_out(request.app.settings))
    return render.see_other(request, "/login")


pages: Final = (
    Page("GET", "/login", "anyone", show_login),
    Page("POST", "/login", "anyone", log_in),
    Page("POST", "/logout", "anyone", log_out),
)
