"""The fields of a gateway's credentials in a form, which no page shows again."""

import re
from collections.abc import Callable, Container, Mapping
from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.core.settings import SANDBOX, Settings
from opentill.gateways import registry
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import Problem
from opentill.gateways.options import Option
from opentill.portal.gateway_labels import CREDENTIAL, CREDENTIAL_HINT
from opentill.portal.model import SECRET_PREFIX
from opentill.web.translations import N_

_PUBLIC_PREFIX: Final = "credential_"
_VARIABLE: Final = re.compile(r"OPENTILL_(?:GATEWAY_)?([A-Z0-9_]+)")
_PEM: Final = "-----BEGIN "  # only credentials in this form have several lines
JSON_FIELD: Final = f"{SECRET_PREFIX}json"  # of a gateway that does not declare its credentials


class CredentialField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a credential. Those that are secret have no value."""

    id: str
    label: str
    hint: str
    is_secret: bool
    is_file: bool  # it has several lines
    is_main: bool  # most accounts need it
    default: str
    value: str
    is_kept: bool = False  # a secret that the form has encrypted


# Optional fields that most accounts fill in.
_USUAL: Final = frozenset({"wechat_pay_certificate"})


def defaults_of(gateway: str, settings: Settings) -> dict[str, str]:
    """Return the first values of a form: the address of this deployment's own sandbox bank."""
    has_bank = gateway == SANDBOX and settings.sandbox_secret
    return {f"{_PUBLIC_PREFIX}url": settings.sandbox_url} if has_bank else {}


def fields_of(
    gateway: str, form: Mapping[str, str], kept_names: Container[str] = ()
) -> list[CredentialField]:
    """Return the fields of a gateway with the values of a form, without secret ones.

    ``kept_names``: the ids of the secret fields whose values the form has encrypted.
    """
    options = registry.credential_options(gateway)
    if options is None:
        label, hint = N_("Credentials"), N_("A JSON object of texts, as the gateway names them.")
        return [
            CredentialField(
                id=JSON_FIELD, label=label, hint=hint, is_secret=True, is_file=True, is_main=True,
                default="", value="",
            )
        ]  # fmt: skip
    return [
        CredentialField(
            id=_field_id(option, gateway),
            label=CREDENTIAL.get(option.name, option.name.removeprefix(f"{gateway}_")),
            hint=CREDENTIAL_HINT.get(option.name, ""),
            is_secret=option.secret,
            is_file=option.is_file,
            is_main=option.name in _USUAL or not (option.default or option.optional),
            default=option.default,
            value="" if option.secret else form.get(_field_id(option, gateway), ""),
            is_kept=_field_id(option, gateway) in kept_names,
        )
        for option in options
    ]


def hints_of(account: GatewayAccount) -> list[tuple[str, str]]:
    """Return the credentials of an account by which people recognize them, with their labels.

    A secret's hint is its last characters.
    """
    hints = msgspec.json.decode(account.credential_hints, type=dict[str, str])
    return [
        (CREDENTIAL.get(f"{account.gateway}_{name}", name), hint) for name, hint in hints.items()
    ]


def _field_id(option: Option, gateway: str) -> str:
    prefix = SECRET_PREFIX if option.secret else _PUBLIC_PREFIX
    return prefix + option.name.removeprefix(f"{gateway}_")


def read(gateway: str, form: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the credentials of a form, without empty ones. Raises Invalid on ``json``.

    The secret of this deployment's own sandbox bank need not be entered: no page shows it.
    """
    options = registry.credential_options(gateway)
    if options is None:
        try:
            return msgspec.json.decode(form.get(JSON_FIELD, ""), type=dict[str, str])
        except (msgspec.MsgspecError, RecursionError):
            # The error could quote a secret.
            raise Invalid("json", "credentials must be a JSON object of texts") from None
    values = {
        option.name.removeprefix(f"{gateway}_"): _clean(form.get(_field_id(option, gateway), ""))
        for option in options
    }
    is_own_bank = gateway == SANDBOX and values["url"].rstrip("/") == settings.sandbox_url
    if is_own_bank and not values["secret"]:
        values["secret"] = settings.sandbox_secret
    return {name: value for name, value in values.items() if value}


def _clean(text: str) -> str:
    """Return pasted text without the line breaks that files and terminals add."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return "\n".join(lines) + "\n" if _PEM in text else "".join(lines)


def field_id(gateway: str, name: str | None) -> str | None:
    """Return the field of the form for a credential, None if it has none."""
    if name == "json":
        return JSON_FIELD
    for option in registry.credential_options(gateway) or ():
        if option.name == f"{gateway}_{name}":
            return _field_id(option, gateway)
    return None


def explain(gateway: str, problem: Invalid) -> tuple[str, str, str] | None:
    """Return field, error text and the value of {wait} for a refused credential.

    None if the problem is about something else.
    """
    reason = str(problem.reason)
    field = field_id(gateway, problem.field)
    if field is None:
        if problem.field != "credentials":
            return None
        return "credentials", N_("These credentials cannot be used: {wait}"), reason
    # Adapters begin with the name of the credential, as the command line has it.
    text = reason.removeprefix(f"{problem.field} ")
    return field, N_("This cannot be used: it {wait}"), text


def explain_refusal(
    gateway: str, problem: Problem, gettext: Callable[[str], str]
) -> tuple[str, str, str]:
    """Return field, error text and the value of {wait} for credentials that a provider refuses."""
    field = field_id(gateway, problem.field)
    text = in_words(problem, gettext)
    return field or "credentials", N_("The provider refuses it: {wait}"), text


def in_words(problem: Problem, gettext: Callable[[str], str]) -> str:
    """Return a problem with the names of the form's fields for those of variables."""

    def label(match: re.Match[str]) -> str:
        text = CREDENTIAL.get(match[1].lower())
        return match[0] if text is None else f"“{gettext(text)}”"

    return _VARIABLE.sub(label, problem.reported)
