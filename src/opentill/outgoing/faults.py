"""Why a merchant's server did not take a request: one table of rules, evidence → fault.

``web/delivery_faults.py`` has the advice of each fault. Webhooks, Epay notifications and checks of
addresses use the same table; a response that was accepted may have a fault too, as a warning.
"""

import re
from http import HTTPStatus
from typing import Final, Literal, get_args

import msgspec

from opentill.outgoing import client
from opentill.outgoing.client import Response

Fault = Literal[
    "dns_missing",
    "address_not_allowed",
    "refused",
    "unreachable",
    "certificate_expired",
    "certificate_wrong_name",
    "certificate_invalid",
    "tls_failed",
    "timeout",
    "connection_reset",
    "not_http",
    "block_page",
    "login_page",
    "redirect",
    "signature_refused",
    "wrong_host",
    "forbidden",
    "not_found",
    "server_error",
    "other_status",
    "bom",
    "html_page",
    "no_success",
]
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
# An Epay notification must get the response "success", a webhook any with status 2xx.
Expected = Literal["2xx", "success"]
_BOM: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"
_MAX_READ: Final = 64 * 1024  # at most this many characters of a response are examined


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A response, or the reason why there is none, in the form that the rules compare."""

    expected: Expected
    reason: str  # one of the reasons of ``outgoing/client.py``, "" if there is a response
    is_forbidden: bool  # whether the address policy refused the address
    status: int  # 0 without a response
    head: str  # header lines in lower case
    location: str
    body: str
    is_html: bool
    has_bom: bool
    has_success: bool  # whether the text says "success"; always True if any 2xx is expected

    @classmethod
    def of_response(cls, response: Response, expected: Expected) -> "Evidence":
        """Return the evidence of a response."""
        text = response.body[:_MAX_READ].decode(errors="replace")
        location = next((value for name, value in response.headers if name == "location"), "")
        return cls(
            expected=expected,
            reason="",
            is_forbidden=False,
            status=response.status,
            head="\n".join(f"{name}: {value}" for name, value in response.headers).lower(),
            location=location[:2048],
            body=text,
            is_html=is_html(text),
            has_bom=text.startswith(_BOM),
            has_success=expected == "2xx" or says_success(text),
        )

    @classmethod
    def of_failure(
        cls, reason: str, expected: Expected, *, is_forbidden: bool = False
    ) -> "Evidence":
        """Return the evidence of a request without a response."""
        return cls(
            expected=expected,
            reason=reason,
            is_forbidden=is_forbidden,
            status=0,
            head="",
            location="",
            body="",
            is_html=False,
            has_bom=False,
            has_success=False,
        )

    @property
    def is_accepted(self) -> bool:
        """Whether the response is what the sender waits for."""
        if self.expected == "2xx":
            return 200 <= self.status < 300  # noqa: PLR2004 - 2xx
        return self.status == HTTPStatus.OK and self.has_success


class _Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: the fault of evidence that meets all the given conditions."""

    fault: Fault
    reasons: tuple[str, ...] = ()
    forbidden: bool = False
    statuses: range = range(1000)
    head: re.Pattern[str] | None = None
    location: re.Pattern[str] | None = None
    body: re.Pattern[str] | None = None
    html: bool | None = None
    bom: bool = False
    expected: Expected | None = None
    refused: bool = False  # only responses that are not accepted

    def matches(self, evidence: Evidence) -> bool:
        """Whether the evidence meets the conditions."""
        return (
            (not self.reasons or evidence.reason in self.reasons)
            and (not self.forbidden or evidence.is_forbidden)
            and evidence.status in self.statuses
            and (self.html is None or evidence.is_html == self.html)
            and (not self.bom or evidence.has_bom)
            and (self.expected is None or evidence.expected == self.expected)
            and not (self.refused and evidence.is_accepted)
            and (self.head is None or self.head.search(evidence.head) is not None)
            and (self.location is None or self.location.search(evidence.location) is not None)
            and (self.body is None or self.body.search(evidence.body) is not None)
        )


def classify(evidence: Evidence) -> Fault | None:
    """Return the fault of a request, None if its response is as expected."""
    return next((rule.fault for rule in _RULES if rule.matches(evidence)), None)


def is_html(text: str) -> bool:
    """Whether a text is an HTML document. PHP sends any text with the content type of HTML."""
    return _HTML.match(text) is not None


def says_success(text: str) -> bool:
    """Whether a response's text says "success". Of an HTML document, only the shown text counts.

    Login and block pages have the word in the names of styles and in scripts.
    """
    return "success" in (shown_text(text) if is_html(text) else text).lower()


def shown_text(page: str) -> str:
    """Return the text of an HTML document outside of tags, comments, scripts and styles."""
    shown: list[str] = []
    at, lowered = 0, page.lower()
    while (tag := page.find("<", at)) >= 0:
        shown.append(page[at:tag])
        opening = _UNSHOWN.match(lowered, tag)
        ending = ">" if opening is None else _ENDINGS[opening[0]]
        end = lowered.find(ending, tag)
        if end < 0:
            return " ".join(shown)
        at = end + len(ending)
    return " ".join([*shown, page[at:]])


_UNSHOWN: Final = re.compile(r"<!--|<script\b|<style\b|<title\b|<noscript\b")
_ENDINGS: Final = {
    "<!--": "-->",
    "<script": "</script>",
    "<style": "</style>",
    "<title": "</title>",
    "<noscript": "</noscript>",
}
_HTML: Final = re.compile(
    r"[\s\ufeff]*(?:<\?xml[^>]{0,200}>\s*)?<(?:!doctype html|html|head|body)\b", re.IGNORECASE
)


def _any(*texts: str) -> re.Pattern[str]:
    """Return a pattern for any of the texts, in any case."""
    return re.compile("|".join(map(re.escape, texts)), re.IGNORECASE)


# Pages of content delivery networks and firewalls that ask for a browser or refuse the request.
_BLOCK_HEAD: Final = re.compile(
    r"^(?:cf-mitigated: challenge|x-sucuri-block:|x-amzn-waf-action:|x-datadome:"
    r"|x-vercel-mitigated:|x-waf-|x-firewall-)",
    re.MULTILINE,
)
_BLOCK_BODY: Final = _any(
    "Just a moment...",
    "challenge-platform",
    "cf-challenge",
    "Attention Required! | Cloudflare",
    "Sorry, you have been blocked",
    "Checking your browser",
    "Checking if the site connection is secure",
    "Enable JavaScript and cookies to continue",
    "_Incapsula_Resource",
    "Incapsula incident ID",
    "errors.edgesuite.net",
    "Sucuri WebSite Firewall",
    "DDoS-Guard",
    "Vercel Security Checkpoint",
    "Generated by Wordfence",
    "Mod_Security",
    "ModSecurity",
    "Request blocked",
    "Web Application Firewall",
    "captcha-delivery.com",
    "g-recaptcha",
    "h-captcha",
    "cf-turnstile",
    "errors.aliyun.com",
    "acw_sc__v2",
    "安全威胁",
    "防火墙",
    "请求被拦截",
    "已被拦截",
    "人机验证",
    "安全验证",
    "创宇盾",
    "安全狗",
    "云锁",
    "btwaf",
    "safedog",
    "SafeLine",
    "未备案",
    "Non-compliance ICP Filing",
)
_LOGIN_PATH: Final = re.compile(
    r"(?:^|[/?&=._-])(?:log-?in|log_in|sign-?in|sign_in|sso|passport|oauth2?|auth|wp-login)(?:$|[/?&=._#-])",
    re.IGNORECASE,
)
_LOGIN_BODY: Final = re.compile(r"<input\b[^>]{0,500}\btype\s*=\s*[\"']?password\b", re.IGNORECASE)
_SIGNATURE: Final = re.compile(
    r"signature|hmac|\bsign(?:ed|ing)?[\s_-]*(?:is\s*)?(?:not|in|err|fail|wrong|bad|mismatch|check|verif)"
    r"|(?:invalid|wrong|bad|incorrect|error)[\s_-]*(?:md5|rsa)?[\s_-]*sign"
    r"|verif(?:y|ication)[\s_-]*(?:sign|fail|err)|验签|驗簽|签名|簽名|簽章",
    re.IGNORECASE,
)
# Default pages of web servers, panels and hosters: the name is not set up at that server.
_OTHER_SITE: Final = _any(
    "Welcome to nginx",
    "Test Page for the",
    "Apache2 Ubuntu Default Page",
    "Apache2 Debian Default Page",
    "<h1>It works!</h1>",
    "IIS Windows Server",
    "Domain not configured",
    "domain is not configured",
    "Invalid host header",
    "DisallowedHost",
    "no such app",
    "There isn't a GitHub Pages site here",
    "default backend - 404",
    "This domain is parked",
    "buy this domain",
    "没有找到站点",
    "站点未找到",
    "站点创建成功",
    "恭喜，站点创建成功",
    "该域名未绑定",
    "域名未绑定",
)  # fmt: skip
_2XX: Final = range(200, 300)
_3XX: Final = range(300, 400)
_4XX: Final = range(400, 500)
_5XX: Final = range(500, 1000)
_RESPONSES: Final = range(1, 1000)
_REFUSALS: Final = range(300, 1000)


def _only(status: HTTPStatus) -> range:
    return range(status, status + 1)


# The first rule that matches counts.
_RULES: Final[tuple[_Rule, ...]] = (
    _Rule(fault="address_not_allowed", forbidden=True),
    _Rule(fault="dns_missing", reasons=(client.UNKNOWN_HOST,)),
    _Rule(fault="refused", reasons=(client.REFUSED,)),
    _Rule(fault="certificate_expired", reasons=(client.EXPIRED_CERTIFICATE,)),
    _Rule(fault="certificate_wrong_name", reasons=(client.OTHER_NAME,)),
    _Rule(fault="certificate_invalid", reasons=(client.WRONG_CERTIFICATE,)),
    _Rule(fault="tls_failed", reasons=(client.NO_TLS,)),
    _Rule(fault="timeout", reasons=(client.RESPONSE_TIMEOUT, client.CONNECT_TIMEOUT)),
    _Rule(fault="connection_reset", reasons=(client.CLOSED,)),
    _Rule(fault="not_http", reasons=(client.MALFORMED,)),
    _Rule(fault="unreachable", reasons=(client.NO_ROUTE,)),
    _Rule(fault="block_page", statuses=_RESPONSES, head=_BLOCK_HEAD),
    _Rule(fault="login_page", statuses=_3XX, location=_LOGIN_PATH),
    _Rule(fault="redirect", statuses=_3XX),
    _Rule(fault="block_page", statuses=_RESPONSES, html=True, body=_BLOCK_BODY, refused=True),
    _Rule(fault="block_page", statuses=_REFUSALS, body=_BLOCK_BODY),
    _Rule(fault="wrong_host", statuses=_only(HTTPStatus.MISDIRECTED_REQUEST)),
    _Rule(fault="wrong_host", statuses=_RESPONSES, body=_OTHER_SITE, refused=True),
    _Rule(fault="login_page", statuses=_only(HTTPStatus.UNAUTHORIZED), html=True),
    _Rule(
        fault="login_page",
        statuses=_only(HTTPStatus.UNAUTHORIZED),
        head=re.compile(r"^www-authenticate: *(?:basic|digest)", re.MULTILINE),
    ),
    _Rule(fault="login_page", statuses=range(200, 500), html=True, body=_LOGIN_BODY, refused=True),
    _Rule(
        fault="signature_refused",
        statuses=range(200, 500),
        html=False,
        body=_SIGNATURE,
        refused=True,
    ),
    _Rule(fault="signature_refused", statuses=_only(HTTPStatus.UNAUTHORIZED)),
    _Rule(fault="forbidden", statuses=_only(HTTPStatus.FORBIDDEN)),
    _Rule(fault="not_found", statuses=_only(HTTPStatus.NOT_FOUND)),
    _Rule(fault="not_found", statuses=_only(HTTPStatus.GONE)),
    _Rule(fault="server_error", statuses=_5XX),
    _Rule(fault="other_status", statuses=_4XX),
    # Warnings about responses to webhooks, which are accepted whatever they contain.
    _Rule(fault="block_page", statuses=_2XX, html=True, body=_BLOCK_BODY, expected="2xx"),
    _Rule(fault="wrong_host", statuses=_2XX, html=True, body=_OTHER_SITE, expected="2xx"),
    _Rule(fault="login_page", statuses=_2XX, html=True, body=_LOGIN_BODY, expected="2xx"),
    _Rule(fault="html_page", statuses=_2XX, html=True, expected="2xx"),
    # Responses to Epay notifications: a byte order mark is accepted, but other platforms refuse it.
    _Rule(fault="html_page", statuses=_2XX, html=True, refused=True),
    _Rule(fault="bom", statuses=_only(HTTPStatus.OK), bom=True, expected="success"),
    _Rule(fault="no_success", statuses=_RESPONSES, refused=True),
)
