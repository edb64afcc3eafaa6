"""The check of ``opentill doctor`` on the mail server."""

from opentill import config
from opentill.cli import session
from opentill.cli.exposure import Finding
from opentill.core.settings import Settings


def finding(settings: Settings) -> Finding:
    """Connect and log in to the mail server, and report."""
    if not settings.sends_mail:
        text = "no mail server: nothing is mailed, links are shown to whoever makes them"
        return Finding("mail", "ok", text)
    from opentill import mail

    try:
        server = session.run(mail.check_server(settings))
    except mail.Unreached as error:
        return Finding("mail", "fail", f"{error}; correct OPENTILL_SMTP_URL")
    if not server.is_encrypted and not config.is_loopback(f"http://{server.host}"):
        text = (
            f"{server} takes mail, but everybody between can read it; use smtp+starttls:// or"
            " smtps://"
        )
        return Finding("mail", "warn", text)
    return Finding("mail", "ok", f"{server} takes mail of {settings.mail_from}")
