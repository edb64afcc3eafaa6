"""The advice for each fault of a merchant's server (``outgoing/faults.py``)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.core.languages import Language
from opentill.outgoing.faults import FAULTS, Fault
from opentill.web.translations import N_, NC_, translate


class Advice(msgspec.Struct, frozen=True):
    """What a fault is called in lists, and what to do about it, in one sentence or two.

    ``to_epay`` replaces ``text`` for Epay notifications, whose receivers are shops' plugins.
    """

    name: str
    text: str
    to_epay: str = ""


ADVICE: Final[Mapping[Fault, Advice]] = {
    "dns_missing": Advice(
        N_("Host name not found"),
        N_(
            "The host name has no address in the DNS. Correct a typing error in the URL, or add "
            "the missing DNS record."
        ),
    ),
    "address_not_allowed": Advice(
        N_("Address not allowed"),
        N_(
            "The URL leads to a private or special network, which is never called. Use an "
            "address that the public internet can reach."
        ),
    ),
    "refused": Advice(
        N_("Connection refused"),
        N_(
            "Nothing listens at this host and port. Start the web server, or correct the port in "
            "the URL."
        ),
    ),
    "unreachable": Advice(
        N_("Server not reachable"),
        N_(
            "There is no connection to the server. Check that it runs, and that its firewall lets "
            "requests through."
        ),
    ),
    "certificate_expired": Advice(
        N_("Certificate expired"),
        N_("Renew the TLS certificate of the server, and let it renew by itself from now on."),
    ),
    "certificate_wrong_name": Advice(
        N_("Certificate for another name"),
        N_(
            "The certificate does not cover this host name. Get one that does, or use the host "
            "name of the certificate in the URL."
        ),
    ),
    "certificate_invalid": Advice(
        N_("Certificate not trusted"),
        N_(
            "The certificate is self-signed, or the server does not send the intermediate "
            "certificate. Install the complete chain of a public certificate authority."
        ),
    ),
    "tls_failed": Advice(
        N_("TLS connection failed"),
        N_(
            "The server does not speak TLS at this port, or only an outdated version. Check its "
            "HTTPS settings; TLS 1.2 or newer is required."
        ),
    ),
    "timeout": Advice(
        N_("No response in time"),
        N_(
            "The server took longer than 30 seconds. Store the event, respond at once, and do the "
            "work afterwards."
        ),
        N_(
            "The shop took longer than 5 seconds. Let it respond with success at once, and do the "
            "work afterwards; check that the server is not overloaded."
        ),
    ),
    "connection_reset": Advice(
        N_("Connection broken off"),
        N_(
            "The server or a firewall in front of it closed the connection without a response. "
            "Look into the error log of the web server at this time, and allow our requests in "
            "the firewall."
        ),
    ),
    "not_http": Advice(
        N_("Not a web server"),
        N_("The response is not HTTP. Correct the port in the URL."),
    ),
    "block_page": Advice(
        N_("Blocked by a CDN or firewall"),
        N_(
            "A CDN or firewall responded in place of your server, with a page for browsers. Add a "
            "rule there that lets requests to this path through without a challenge."
        ),
    ),
    "login_page": Advice(
        N_("Login page"),
        N_(
            "The path asks for a login. Exempt it from the login, since the signature already "
            "proves who sends the request."
        ),
    ),
    "redirect": Advice(
        N_("Redirect"),
        N_(
            "The server redirects to another URL, and redirects are not followed. Enter the final "
            "URL here, usually with https:// or with www."
        ),
        N_(
            "The server redirects to another URL, and redirects are not followed. Set the final "
            "URL, usually with https:// or with www, as the address of the shop in its settings."
        ),
    ),
    "signature_refused": Advice(
        N_("Signature refused"),
        N_(
            "Your server did not accept the signature. Enter this endpoint’s signing secret there, "
            "and verify the raw bytes of the body."
        ),
        N_(
            "The shop did not accept the signature. Enter the pid and the key of the page Epay in "
            "the settings of the shop again, without spaces."
        ),
    ),
    "wrong_host": Advice(
        N_("Wrong site"),
        N_(
            "The server responded with its default page: it has no site with this host name. "
            "Correct the DNS record, or add the host name to the site’s settings."
        ),
    ),
    "forbidden": Advice(
        N_("Access denied (403)"),
        N_(
            "The server or its firewall denies access. Allow POST requests to this path, and "
            "exempt it from CSRF protection, hotlink protection and country filters."
        ),
        N_(
            "The server or its firewall denies access. Allow GET requests with a query to this "
            "path, and exempt it from hotlink protection and country filters."
        ),
    ),
    "not_found": Advice(
        N_("Path not found"),
        N_(
            "There is no page at this path. Correct the path in the URL, or deploy the program "
            "that receives the events."
        ),
        N_(
            "There is no page at this path. Check that the payment plugin is installed and active, "
            "and that the shop’s address in its settings is correct."
        ),
    ),
    "server_error": Advice(
        N_("Error in your server"),
        N_(
            "Your program failed while it handled the request. Look into its error log at this "
            "time."
        ),
    ),
    "other_status": Advice(
        N_("Rejected by your server"),
        N_(
            "Your server rejected the request. Check that the path accepts POST with JSON, and "
            "respond with 2xx, also to event types that you do not know."
        ),
        N_(
            "The shop rejected the request. Check that the path accepts GET, and that no limit of "
            "requests is in its way."
        ),
    ),
    "bom": Advice(
        N_("Byte order mark before “success”"),
        N_(
            "The response begins with an invisible byte order mark. Save the PHP files of the shop "
            "as UTF-8 without BOM."
        ),
    ),
    "html_page": Advice(
        N_("Web page instead of a response"),
        N_(
            "The response is a web page, so the path probably belongs to your website and not to "
            "the program that receives events. Correct the path."
        ),
        N_(
            "The response is a web page instead of “success”. The notification address probably "
            "leads to the shop’s home page: check its address and the rewrite rules of the server."
        ),
    ),
    "no_success": Advice(
        NC_("Epay", "No “success”"),
        N_(
            "The response must have the status 200 and the text “success”. The shop refused the "
            "order or its signature: check the key in its settings, and its log."
        ),
    ),
}
if missing := set(FAULTS) - set(ADVICE):
    raise AssertionError(missing)


def text_of(fault: Fault, language: Language, *, to_epay: bool = False) -> str:
    """Return the name and the advice of a fault in a language of merchants' pages."""
    advice = ADVICE[fault]
    text = (to_epay and advice.to_epay) or advice.text
    name, advised = (translate("merchant", language, one) for one in (advice.name, text))
    return f"{name}. {advised}" if language == "en" else f"{name}。{advised}"
