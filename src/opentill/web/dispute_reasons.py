"""Texts that explain providers' reasons of disputes, and the evidence that each reason needs.

The names are those of Stripe's dashboard.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from opentill.core.languages import Language
from opentill.web.translations import N_, translate


class EvidenceField(NamedTuple):
    """A fact or a file that banks ask for: the field's name, its label and its hint.

    ``sold`` is the kind of what was sold for which it is asked, "" for both.
    """

    name: str
    label: str
    hint: str = ""
    kind: Literal["text", "date", "file"] = "text"
    sold: Literal["", "goods", "service"] = ""


class DisputeReason(NamedTuple):
    """A reason's name in lists, its text, and the evidence to submit, most important first."""

    name: str
    text: str
    evidence: tuple[str, ...]


_MESSAGES: Final = N_("Messages with the customer about the order, such as emails.")
_DELIVERY: Final = N_(
    "Proof of delivery: the carrier, the tracking number, the date and the address, or the "
    "customer’s signature."
)
_USE: Final = N_(
    "For digital goods and services: records of the download or the use, with times and addresses."
)
_DESCRIPTION: Final = N_("The description of the product as the customer saw it before paying.")
_REFUND_POLICY: Final = N_("Your refund policy, and where the customer agreed to it.")
_NO_REFUND: Final = N_("Why the customer has no right to a refund.")
_PAID_BACK: Final = N_("If you have refunded the customer: proof of that refund.")
_EARLIER: Final = N_("Earlier orders of the same customer that were not disputed.")
_IDENTITY: Final = N_(
    "Anything that connects the customer with the payment: a signed contract, an account with you, "
    "the delivery address."
)
_TWO_ORDERS: Final = N_(
    "The receipts of both payments, and what shows that they are for different orders."
)
_SHOP_NAME: Final = N_("The name of your shop as it stands on the customer’s statement.")
_CANCELLATION: Final = N_("Your cancellation policy, and where the customer agreed to it.")
_NOT_CANCELLED: Final = N_(
    "What shows that the customer did not cancel, or used the service after the cancellation."
)
_REPLACED: Final = N_(
    "What you offered, such as a repair, a replacement or a return, and what the customer said."
)

_GENERAL: Final = (_MESSAGES, _DELIVERY, _USE, _REFUND_POLICY)
# The names are those of Stripe's dashboard, as far as it has them.
_POLICY_HINT: Final = N_("Its address, or the sentence to which the customer agreed.")
_FIELDS: Final[Mapping[str, tuple[EvidenceField, ...]]] = {
    _DELIVERY: (
        EvidenceField("carrier", N_("Carrier"), N_("Such as DHL or UPS."), sold="goods"),
        EvidenceField("tracking", N_("Tracking number"), sold="goods"),
        EvidenceField("delivered", N_("Date of delivery"), kind="date", sold="goods"),
    ),
    _USE: (
        EvidenceField(
            "service", N_("Date of the service or download"), kind="date", sold="service"
        ),
    ),
    _PAID_BACK: (
        EvidenceField("refund", N_("Refund"), N_("Its date and reference, if you paid it back.")),
    ),
    _TWO_ORDERS: (
        EvidenceField("other", N_("The other payment"), N_("Its ID or your order number.")),
    ),
    _REFUND_POLICY: (EvidenceField("policy", N_("Refund policy"), _POLICY_HINT),),
    _CANCELLATION: (EvidenceField("policy", N_("Cancellation policy"), _POLICY_HINT),),
}
_DOCUMENTS: Final[Mapping[str, str]] = {
    _DELIVERY: N_("Proof of delivery"),
    _USE: N_("Records of the download or the use"),
    _PAID_BACK: N_("Proof of the refund"),
    _TWO_ORDERS: N_("Receipts of both payments"),
    _IDENTITY: N_("Contract or other proof of identity"),
    _DESCRIPTION: N_("Product description"),
    _NOT_CANCELLED: N_("Records of the use"),
}
_SOLD: Final[Mapping[str, Literal["goods", "service"]]] = {_DELIVERY: "goods", _USE: "service"}
# https://docs.stripe.com/disputes/categories and
# https://docs.stripe.com/api/disputes/object#dispute_object-reason
_REASONS: Final[Mapping[str, DisputeReason]] = {
    "bank_cannot_process": DisputeReason(
        N_("Bank cannot process"),
        N_("The customer’s bank could not process the payment."),
        _GENERAL,
    ),
    "check_returned": DisputeReason(
        N_("Check returned"), N_("The customer’s check was returned."), _GENERAL
    ),
    "credit_not_processed": DisputeReason(
        N_("Credit not processed"),
        N_("The customer says that a refund or a return was not paid back."),
        (_PAID_BACK, _NO_REFUND, _REFUND_POLICY, _MESSAGES),
    ),
    "customer_initiated": DisputeReason(
        N_("Customer initiated"), N_("The customer disputed the payment at their bank."), _GENERAL
    ),
    "debit_not_authorized": DisputeReason(
        N_("Debit not authorized"),
        N_("The customer says that they did not authorize the debit."),
        (_IDENTITY, _USE, _DELIVERY, _MESSAGES),
    ),
    "duplicate": DisputeReason(
        N_("Duplicate"),
        N_("The customer says that they paid twice for the same order."),
        (_TWO_ORDERS, _PAID_BACK, _DELIVERY, _MESSAGES),
    ),
    "fraudulent": DisputeReason(
        N_("Fraudulent"),
        N_("The cardholder says that they did not make the payment."),
        (_IDENTITY, _DELIVERY, _USE, _EARLIER, _MESSAGES),
    ),
    "general": DisputeReason(
        N_("General"), N_("The bank has named no particular reason."), _GENERAL
    ),
    "incorrect_account_details": DisputeReason(
        N_("Incorrect account details"),
        N_("The details of the customer’s account were wrong."),
        _GENERAL,
    ),
    "insufficient_funds": DisputeReason(
        N_("Insufficient funds"),
        N_("There was not enough money on the customer’s account."),
        _GENERAL,
    ),
    "noncompliant": DisputeReason(
        N_("Noncompliant"),
        N_("The bank says that the payment broke a rule of the card scheme."),
        _GENERAL,
    ),
    "product_not_received": DisputeReason(
        N_("Product not received"),
        N_("The customer says that they did not get the product or service."),
        (_DELIVERY, _USE, _PAID_BACK, _MESSAGES),
    ),
    "product_unacceptable": DisputeReason(
        N_("Product unacceptable"),
        N_("The customer says that the product is defective, damaged or not as described."),
        (_DESCRIPTION, _REPLACED, _REFUND_POLICY, _MESSAGES),
    ),
    "subscription_canceled": DisputeReason(
        N_("Subscription canceled"),
        N_("The customer says that they had canceled the subscription."),
        (_NOT_CANCELLED, _CANCELLATION, _USE, _MESSAGES),
    ),
    "unrecognized": DisputeReason(
        N_("Unrecognized"),
        N_("The customer does not recognize the payment."),
        (_SHOP_NAME, _IDENTITY, _DELIVERY, _EARLIER, _MESSAGES),
    ),
}
CODES: Final = frozenset(_REASONS)


def name_of(reason: str, language: Language) -> str:
    """Return the short name of a provider's reason. Any other text is returned unchanged."""
    entry = _REASONS.get(reason)
    return reason if entry is None else translate("merchant", language, entry.name)


def text_of(reason: str, language: Language) -> str:
    """Return the text of a provider's reason. Any other text is returned unchanged."""
    entry = _REASONS.get(reason)
    return reason if entry is None else translate("merchant", language, entry.text)


def evidence_for(reason: str) -> tuple[str, ...]:
    """Return the message ids of the evidence that a dispute with this reason needs."""
    return _REASONS[reason].evidence if reason in _REASONS else _GENERAL


def fields_for(reason: str) -> tuple[EvidenceField, ...]:
    """Return the facts and the files that a dispute with this reason needs, files last."""
    evidence = evidence_for(reason)
    facts = (field for item in evidence for field in _FIELDS.get(item, ()))
    items = [item for item in evidence if item in _DOCUMENTS]
    names = zip(("document", "document2"), items, strict=False)
    return (
        *facts,
        *(
            EvidenceField(name, _DOCUMENTS[item], kind="file", sold=_SOLD.get(item, ""))
            for name, item in names
        ),
        EvidenceField("messages", N_("Messages with the customer"), kind="file"),
    )
