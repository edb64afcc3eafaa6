"""Checkout sessions and their representation in the API."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opentill.core import languages, money, structs
from opentill.core.errors import Invalid
from opentill.core.payment_methods import Method
from opentill.http import inputs, schemas
from opentill.http.fields import CreatedAt, DecimalText, meaning
from opentill.merchants import logo_path
from opentill.orders import NewOrder, Order, PaymentAttempt
from opentill.orders.model import SessionStatus, Source
from opentill.products.model import Currency, Description, Image, Name, Price

if TYPE_CHECKING:
    Locale = str
else:  # at run time, checks and the OpenAPI document use the languages of customers' pages
    Locale = Literal[languages.offered("customer")]
LIFETIME_MS: Final = 24 * 3600 * 1000
MAX_DISPLAY_NAME: Final = 80
MAX_CUSTOMER_NAME: Final = 200
MAX_REFERENCE: Final = 200
MIN_LIFETIME_MS: Final = 30 * 60 * 1000
MAX_ATTEMPTS: Final = 50  # an order can have at most this many payment attempts


class AmountOutOfBounds(Invalid):
    """An amount that is worth nothing, or more than the ledger can hold, at its exchange rates."""

    def __init__(self, field: str, reason: str, least_minor: int, most_minor: int) -> None:
        """Amounts from ``least_minor`` to ``most_minor`` (minor units, inclusive) are accepted."""
        super().__init__(field, reason)
        self.least_minor = least_minor
        self.most_minor = most_minor


_Url = Annotated[
    str,
    Meta(
        max_length=2048,
        description="an absolute http or https URL of at most 2048 characters",
        extra_json_schema={"pattern": inputs.URL_PATTERN},
    ),
]
_Email = Annotated[
    str,
    Meta(
        description="an email address",
        extra_json_schema={"pattern": inputs.EMAIL_PATTERN},
    ),
]
_DisplayName = Annotated[
    str,
    Meta(
        description="text of 1 to 80 characters",
        extra_json_schema={"minLength": 1, "maxLength": 80, "pattern": r"\S"},
    ),
]
_OtherSpelling = Annotated[
    _DisplayName, Meta(extra_json_schema={schemas.SPELLING_OF: "displayMerchantName"})
]
_CustomerName = Annotated[str, Meta(max_length=200, description="text of at most 200 characters")]
_OtherCustomerName = Annotated[
    _CustomerName, Meta(extra_json_schema={schemas.SPELLING_OF: "customerName"})
]
Quantity = Annotated[int, Meta(ge=1, le=99, description="a whole number from 1 to 99")]
_ExpiresIn = Annotated[
    int,
    Meta(
        ge=MIN_LIFETIME_MS,
        le=LIFETIME_MS,
        description="a whole number of milliseconds from 1800000 to 86400000",
    ),
]
# Opening a session checks that at least one of the methods is offered for the currency.
Methods = Annotated[
    list[Method],
    Meta(
        min_length=1,
        max_length=6,
        description="a list of one or more of CREDIT_CARD, ALIPAY, WECHAT_PAY, PAYNOW, CRYPTO and "
        "BANK_TRANSFER",
    ),
]
LocaleField = Annotated[Locale, Meta(description=", ".join(languages.offered("customer")))]
ClientReference = Annotated[
    str,
    Meta(
        description="text of 1 to 200 characters",
        extra_json_schema={"minLength": 1, "maxLength": 200, "pattern": r"\S"},
    ),
]
_Metadata = Annotated[
    msgspec.Raw,
    Meta(
        description="a JSON object of at most 50 keys of at most 64 characters, 16 KiB in all",
        extra_json_schema={
            "description": "Keys and values of your own, kept with the session, its order and "
            "their events: at most 50 keys of at most 64 characters, 16 KiB in all.",
            "type": ["object", "null"],
            "maxProperties": 50,
            "propertyNames": {"maxLength": 64},
        },
    ),
]


class ItemBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item that a session sells without a product, such as a cart (contract.md#session-item)."""

    name: Annotated[
        Name, meaning("What the customer reads on the payment page: 1 to 200 characters.")
    ]
    price: Annotated[
        Price,
        meaning("What one costs: decimal text from `0.01` to `99999999.99`, as of a product."),
    ]
    currency: Annotated[
        Currency, meaning("The currency of the price: an active ISO 4217 code in capitals.")
    ]
    description: Annotated[
        Description | None, meaning("More words for the payment page: at most 1000 characters.")
    ] = None
    image: Annotated[
        Image | None,
        meaning("The address of a picture: http or https, at most 2048 characters."),
    ] = None


class SessionBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body that opens a session (contract.md#session-create)."""

    product_id: Annotated[
        Annotated[str, Meta(description="the id of one of your active products")],
        meaning(
            "The product to sell: the id of an active product of yours. Required unless there is "
            "an `item`."
        ),
    ] = ""
    success_url: Annotated[
        _Url | None,
        meaning(
            "Where the customer goes after paying: http or https, at most 2048 "
            "characters. `{CHECKOUT_SESSION_ID}` in it is replaced."
        ),
    ] = None
    cancel_url: Annotated[
        _Url | None,
        meaning("Where the customer returns without paying. Same format as `successUrl`."),
    ] = None
    customer_email: Annotated[
        _Email | None, meaning("Fills in the customer's email address on the payment page.")
    ] = None
    customer_name: Annotated[
        _CustomerName | None,
        meaning("Fills in the customer's name on the payment page: at most 200 characters."),
    ] = None
    customer_name_alias: _OtherCustomerName | None = msgspec.field(
        default=None, name="customer_name"
    )
    display_merchant_name: Annotated[
        _DisplayName | None,
        meaning(
            "The name of your shop on the payment page, in place of your own: 1 to 80 characters."
        ),
    ] = None
    display_merchant_name_alias: _OtherSpelling | None = msgspec.field(
        default=None, name="display_merchant_name"
    )
    metadata: _Metadata = msgspec.field(default_factory=msgspec.Raw)
    item: Annotated[
        Annotated[
            ItemBody, Meta(description="an object with name, price and currency of what is sold")
        ]
        | UnsetType,
        meaning("What to sell without a product of its own, such as the total of a cart."),
    ] = UNSET
    quantity: Annotated[
        Quantity | None, meaning("How many are sold, 1 to 99: the amount is so many prices.")
    ] = None
    expires_in: Annotated[
        _ExpiresIn | None,
        meaning("For how long it can be paid, in milliseconds: 30 minutes to 24 hours."),
    ] = None
    payment_methods: Annotated[
        Methods | None,
        meaning("The only methods that it can be paid by, of those that are on offer."),
    ] = None
    locale: Annotated[
        LocaleField | None,
        meaning(
            "The language of the payment page, unless the customer has chosen one. The browser's "
            "if you give none."
        ),
    ] = None
    client_reference: Annotated[
        ClientReference | None,
        meaning(
            "Your own number of the order, 1 to 200 characters. The customer sees it, and "
            "`query` finds the order by it."
        ),
    ] = None

    @property
    def entered_name(self) -> str | None:
        """The customer's name, in either spelling of the field."""
        name = self.customer_name_alias if self.customer_name is None else self.customer_name
        return (name or "").strip() or None


class Session(msgspec.Struct, frozen=True):
    """A stored session."""

    merchant_id: str
    id: str
    product_id: str
    order_id: str
    amount_minor: int
    currency: str
    status: SessionStatus
    success_url: str | None
    cancel_url: str | None
    customer_email: str
    customer_name: str | None
    display_merchant_name: str
    expires_at: int
    created_at: int
    updated_at: int
    method: Method | None  # the only method allowed; None: the customer chooses
    quantity: int | None = None  # None means 1
    methods: Sequence[Method] | None = None  # the allowed methods; None: all that are offered
    locale: Locale | None = None
    client_reference: str | None = None

    def accepts(self, method: Method) -> bool:
        """Whether the session may be paid by a method, provided that a gateway offers it."""
        return self.method in {None, method} and (self.methods is None or method in self.methods)

    @classmethod
    def from_order(cls, new: NewOrder, now: int) -> Self:
        """Return the session that was opened with an order at ``now``."""
        return structs.convert(new, cls, status="OPEN", created_at=now, updated_at=now)


class PublicSession(Session, frozen=True, kw_only=True):
    """A session, and the fields of its merchant that the payment page shows."""

    charge_off: str | None  # why the merchant may not take payments; None if it may
    logo_sha256: str | None
    accent_color: str | None
    support_email: str | None
    support_url: str | None
    terms_url: str | None
    time_zone: str

    @property
    def logo_path(self) -> str | None:
        """The path of the merchant's logo, None if it has none."""
        return logo_path(self.merchant_id, self.logo_sha256)


TEST_MARK: Final = "testPayment"  # the key in the metadata of a test payment, for its account


class PageView(msgspec.Struct, frozen=True):
    """The data of the payment page: the session, its order and the last payment attempt."""

    session: PublicSession
    order: Order
    last_attempt: PaymentAttempt | None


class Sales(msgspec.Struct, frozen=True):
    """The numbers of a product's paid orders and open sessions.

    Orders that were refunded or disputed later count as paid.
    """

    paid_orders: int
    open_sessions: int


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a session sells in place of its product; the product need not be active.

    The item has the product's currency. If ``currency`` is set, a stand-in product is used instead
    (decision 0088). ``source`` is the API that places the order. ``method`` is the only payment
    method allowed; None: any.
    """

    # The order's id if the metadata already contains it; "" if the order gets a new id.
    order_id: str = ""
    name: str
    amount_minor: int  # the price of one unit
    metadata: str | None = None  # JSON text; None if the order gets the request's metadata
    source: Source = "API"
    method: Method | None = None
    currency: str = ""
    description: str = ""
    image: str | None = None


class PayerInput(msgspec.Struct, frozen=True, kw_only=True):
    """The unvalidated input of a payer on the payment page, their IP address and device."""

    email: str
    name: str
    method: str
    ip: str
    locale: str
    on_phone: bool = False


class OpenedTest(msgspec.Struct, frozen=True):
    """An opened test payment: its gateway, order, actor and time (Unix ms)."""

    merchant_id: str
    order_id: str
    gateway: str
    who: str
    created_at: int


class Offer(msgspec.Struct, frozen=True):
    """The data needed to open a session: the product, the merchant's terms and the rates."""

    name: str
    description: str
    image: str | None
    price_minor: int
    currency: str
    status: str
    merchant_name: str
    settlement_currency: str
    platform_fee_rate: Decimal
    refund_fee_policy: str
    reserve_rate: Decimal
    terms_version: int
    fees: str
    settlement_delay_days: int
    settlement_calendar: str
    reserve_days: int
    dispute_fee_minor: int
    exchange_rate: Decimal | None
    usd_exchange_rate: Decimal | None
    charge_off: str | None  # why the merchant may not take payments; None if it may


class _ContractFields(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that the contract lists for the response to opening a session."""

    id: Annotated[
        str,
        Meta(
            description="The session's id. It is part of the payment page's address, and as hard "
            "to guess as a password."
        ),
    ]
    product_id: Annotated[str, Meta(description="The product that is sold.")]
    amount: Annotated[DecimalText, Meta(description="What the customer pays, with two decimals.")]
    currency: Annotated[str, Meta(description="The currency of the amount, an ISO 4217 code.")]
    status: Annotated[
        SessionStatus,
        Meta(
            description="`OPEN`: it can be paid. `COMPLETE`: it is paid. `EXPIRED`: it was not "
            "paid in time."
        ),
    ]
    url: Annotated[str, Meta(description="The payment page. Send the customer there.")]
    expires_at: Annotated[int, Meta(description="Until when it can be paid, Unix ms.")]
    created_at: CreatedAt


def _contract_fields(session: Session, public_url: str) -> dict[str, str]:
    """Return the values of the fields that cannot be copied from ``session``."""
    return {
        "amount": money.show(session.amount_minor, session.currency),
        "url": f"{public_url}/checkout/{session.id}",
    }


class SessionCreated(_ContractFields, frozen=True, kw_only=True, rename="camel"):
    """The response to opening a session (contract.md#session-fields): all but the id of its order.

    An optional field is included only if the request had it.
    """

    quantity: Annotated[int, Meta(ge=1, le=99, description="How many are sold.")] | UnsetType = (
        UNSET
    )
    payment_methods: (
        Annotated[list[Method], Meta(description="The only methods that it can be paid by.")]
        | UnsetType
    ) = UNSET
    locale: Annotated[Locale, Meta(description="The language of its page.")] | UnsetType = UNSET
    client_reference: (
        Annotated[str, Meta(description="Your own number of the order.")] | UnsetType
    ) = UNSET

    @classmethod
    def from_session(cls, session: Session, public_url: str, body: SessionBody) -> Self:
        """Convert a session that was opened with ``body``; its page is below ``public_url``."""
        extensions = {
            "quantity": body.quantity and session.quantity,
            "payment_methods": body.payment_methods and session.methods,
            "locale": body.locale and session.locale,
            "client_reference": body.client_reference and session.client_reference,
        }
        return structs.convert(
            session,
            cls,
            **_contract_fields(session, public_url),
            **{name: UNSET if value is None else value for name, value in extensions.items()},
        )


class SessionOut(_ContractFields, frozen=True, kw_only=True, rename="camel"):
    """A session, with its order (contract.md#session-fields)."""

    quantity: Annotated[int, Meta(ge=1, le=99, description="How many are sold, 1 to 99.")]
    payment_methods: Annotated[
        list[Method] | None,
        Meta(description="The only methods that it can be paid by. Null: all that are on offer."),
    ]
    locale: Annotated[
        Locale | None,
        Meta(description="The language of its page. Null: that of the customer's browser."),
    ]
    client_reference: Annotated[
        str | None, Meta(description="Your own number of the order. Null if you gave none.")
    ]
    order_id: Annotated[
        str, Meta(description="The order of this session. Read it to learn whether it is paid.")
    ]

    @classmethod
    def from_session(cls, session: Session, public_url: str) -> Self:
        """Convert a session, whose payment page is below ``public_url``."""
        return structs.convert(
            session,
            cls,
            **_contract_fields(session, public_url),
            quantity=session.quantity or 1,
            payment_methods=session.methods,
        )
