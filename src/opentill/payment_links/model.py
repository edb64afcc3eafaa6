"""Payment links as they are stored, and as the API reads and shows them."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opentill.checkouts.model import ClientReference, Locale, LocaleField, Methods, Quantity
from opentill.core import money, structs
from opentill.core.payment_methods import Method
from opentill.http import inputs
from opentill.http.fields import CreatedAt, DecimalText, MetadataShown, UpdatedAt, meaning
from opentill.products.model import Currency, Description, Image, Metadata, Name, Price

State = Literal["ACTIVE", "INACTIVE", "EXPIRED", "USED_UP"]
MAX_USES: Final = 100_000
# A session that takes one of a limited number of uses expires after this time, earlier than others.
HELD_MS: Final = 30 * 60 * 1000
# If all uses are taken, the next customer gets the use of a session that nobody has tried to pay
# for this long (decision 0120).
IDLE_MS: Final = 5 * 60 * 1000
_MAX_HELD: Final = 3  # one visitor may hold this many unpaid uses of a link with limited uses


def max_held(max_uses: int) -> int:
    """Return how many unpaid uses of a link one visitor may hold.

    They are never all uses, unless the link has only one.
    """
    return min(_MAX_HELD, max(1, max_uses // 2))


_FutureTime = Annotated[
    int,
    Meta(ge=0, le=253_402_300_799_999, description="a time to come, in Unix milliseconds"),
]
_Uses = Annotated[int, Meta(ge=1, le=MAX_USES, description=f"a whole number from 1 to {MAX_USES}")]
_Url = Annotated[
    str,
    Meta(
        max_length=2048,
        description="an absolute http or https URL of at most 2048 characters",
        extra_json_schema={"pattern": inputs.URL_PATTERN},
    ),
]


class PaymentLink(msgspec.Struct, frozen=True, kw_only=True):
    """A stored payment link: for a product, or for an item with amounts in minor units."""

    merchant_id: str
    id: str
    slug: str
    active: bool
    product_id: str | None
    name: str | None
    description: str
    image: str | None
    currency: str | None
    least_minor: int | None  # equals ``most_minor`` if the price is fixed
    most_minor: int | None
    max_quantity: int
    expires_at: int | None
    max_uses: int | None
    success_url: str | None
    methods: Sequence[Method] | None
    locale: Locale | None
    client_reference: str | None
    metadata: str
    opened: int  # how many sessions it has opened so far
    created_at: int
    updated_at: int

    def address(self, public_url: str) -> str:
        """Return the URL of the link's page."""
        return f"{public_url}/pay/{self.slug}"


class NewLink(msgspec.Struct, frozen=True, kw_only=True):
    """A payment link to store."""

    merchant_id: str
    id: str
    slug: str
    product_id: str | None
    name: str | None
    description: str
    image: str | None
    currency: str | None
    least_minor: int | None
    most_minor: int | None
    max_quantity: int
    expires_at: int | None
    max_uses: int | None
    success_url: str | None
    methods: Sequence[Method] | None
    locale: Locale | None
    client_reference: str | None
    metadata: str


class Sales(msgspec.Struct, frozen=True, kw_only=True):
    """The sales of a link in one currency; amounts in minor units."""

    payment_link_id: str
    currency: str
    open: int
    paid: int
    paid_minor: int


class PaidUse(msgspec.Struct, frozen=True):
    """A paid session of a link, identified by its order."""

    order_id: str


class Outdated(Exception):
    """A link has changed since the caller read it."""


class Usage(msgspec.Struct, frozen=True):
    """The sales of a link by currency, those with most payments first."""

    sales: tuple[Sales, ...] = ()

    @property
    def open(self) -> int:
        """The number of sessions that can be paid."""
        return sum(row.open for row in self.sales)

    @property
    def paid(self) -> int:
        """The number of paid sessions."""
        return sum(row.paid for row in self.sales)

    @property
    def uses(self) -> int:
        """The number of uses that are taken, by open or paid sessions."""
        return self.open + self.paid


def state_of(link: PaymentLink, usage: Usage, now: int) -> State:
    """Return whether a link can be used, or the reason why not."""
    if not link.active:
        return "INACTIVE"
    if link.expires_at is not None and link.expires_at <= now:
        return "EXPIRED"
    if link.max_uses is not None and usage.uses >= link.max_uses:
        return "USED_UP"
    return "ACTIVE"


class LinkItemBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a link sells without a product: at one price, or for what the customer enters."""

    name: Annotated[
        Name, meaning("What the customer reads on the payment page: 1 to 200 characters.")
    ]
    currency: Annotated[
        Currency, meaning("The currency of the amounts: an active ISO 4217 code in capitals.")
    ]
    price: Annotated[
        Price | None, meaning("What one costs: decimal text from `0.01` to `99999999.99`.")
    ] = None
    min_amount: Annotated[
        Price | None,
        meaning("In place of a price: the least that the customer can enter, decimal text."),
    ] = None
    max_amount: Annotated[
        Price | None, meaning("The most that the customer can enter, decimal text.")
    ] = None
    description: Annotated[
        Description | None, meaning("More words for the payment page: at most 1000 characters.")
    ] = None
    image: Annotated[
        Image | None, meaning("The address of a picture: http or https, at most 2048 characters.")
    ] = None


class LinkBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body that makes a payment link (contract.md#payment-link-fields)."""

    product_id: Annotated[
        Annotated[str, Meta(description="the id of one of your active products")],
        meaning("The product to sell. Required unless there is an `item`."),
    ] = ""
    item: Annotated[
        Annotated[
            LinkItemBody,
            Meta(description="an object with name, currency and price, or minAmount and maxAmount"),
        ]
        | UnsetType,
        meaning("What to sell without a product: at one price, or for what the customer enters."),
    ] = UNSET
    max_quantity: Annotated[
        Quantity | None,
        meaning("How many the customer may buy at once, 1 to 99. One if you give none."),
    ] = None
    expires_at: Annotated[
        _FutureTime | None, meaning("Until when it can be used, Unix ms. Without it, for ever.")
    ] = None
    max_uses: Annotated[
        _Uses | None,
        meaning(
            "How many sessions of it may be open or paid. One that ends unpaid gives its use back. "
            "Without it, any number."
        ),
    ] = None
    success_url: Annotated[
        _Url | None, meaning("Where the customer goes after paying, as of a session.")
    ] = None
    payment_methods: Annotated[
        Methods | None, meaning("The only methods that its sessions can be paid by.")
    ] = None
    locale: Annotated[
        LocaleField | None,
        meaning("The language of its pages, unless the customer has chosen one."),
    ] = None
    client_reference: Annotated[
        ClientReference | None,
        meaning("Your own number of all its orders, such as an invoice's: 1 to 200 characters."),
    ] = None
    metadata: Annotated[
        Metadata,
        meaning("Keys and values of your own, for each of its sessions and orders."),
    ] = msgspec.field(default_factory=msgspec.Raw)


class LinkItemUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What changes of an item; its amounts and its currency stay."""

    name: Name | UnsetType = UNSET
    description: Annotated[
        Description | UnsetType | None,
        meaning("More words for the payment page: at most 1000 characters. Null: none."),
    ] = UNSET


class LinkUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body that changes a payment link; what is not sent stays."""

    active: Annotated[bool, Meta(description="true or false")] | UnsetType = UNSET
    item: (
        Annotated[LinkItemUpdate, Meta(description="an object with name, description or both")]
        | UnsetType
    ) = UNSET
    max_quantity: Quantity | UnsetType = UNSET
    expires_at: Annotated[
        _FutureTime | UnsetType | None,
        meaning("Until when it can be used: a time to come, Unix ms. Null: for ever."),
    ] = UNSET
    max_uses: Annotated[
        _Uses | UnsetType | None,
        meaning("How many sessions of it may be open or paid, 1 to 100000. Null: any number."),
    ] = UNSET
    success_url: Annotated[
        _Url | UnsetType | None,
        meaning("Where the customer goes after paying, as of a session. Null: nowhere else."),
    ] = UNSET
    client_reference: Annotated[
        ClientReference | UnsetType | None,
        meaning("Your own number of all its orders: 1 to 200 characters. Null: none."),
    ] = UNSET
    metadata: Annotated[
        Metadata,
        meaning(
            "Keys and values of your own in place of those that are there, for each of its "
            "sessions and orders. Null: none, `{}`."
        ),
    ] = msgspec.field(default_factory=msgspec.Raw)


class LinkItemOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The item that a payment link sells, if it sells no product."""

    name: Annotated[str, Meta(description="Shown to customers on the payment page.")]
    currency: Annotated[str, Meta(description="The currency of the amounts, an ISO 4217 code.")]
    price: Annotated[
        DecimalText | None,
        Meta(description="What one costs. Null where the customer enters the amount."),
    ]
    min_amount: Annotated[
        DecimalText | None,
        Meta(description="The least that the customer can enter. Null with a price."),
    ]
    max_amount: Annotated[
        DecimalText | None,
        Meta(description="The most that the customer can enter. Null with a price."),
    ]
    description: Annotated[str, Meta(description="More words. Empty if there are none.")]
    image: Annotated[
        str | None, Meta(description="The address of its picture. Null if there is none.")
    ]

    @classmethod
    def from_link(cls, link: PaymentLink) -> Self | UnsetType:
        """Return the item of a link, UNSET if it sells a product."""
        currency = link.currency
        if currency is None or link.least_minor is None or link.most_minor is None:
            return UNSET
        least, most = (money.show(minor, currency) for minor in (link.least_minor, link.most_minor))
        fixed = least == most
        return cls(
            name=link.name or "",
            currency=currency,
            price=least if fixed else None,
            min_amount=None if fixed else least,
            max_amount=None if fixed else most,
            description=link.description,
            image=link.image,
        )


class SalesOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The sales through a payment link in one currency."""

    currency: Annotated[str, Meta(description="An ISO 4217 code.")]
    payments: Annotated[int, Meta(description="How many of its sessions were paid.")]
    amount: Annotated[DecimalText, Meta(description="What they paid, before fees and refunds.")]


class PaymentLinkOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A payment link (contract.md#payment-link-fields)."""

    id: Annotated[str, Meta(description="The link's id.")]
    url: Annotated[
        str,
        Meta(
            description="The address to give to customers. With `/qr.svg` or `/qr.png` after it, "
            "the QR code of it."
        ),
    ]
    status: Annotated[
        State,
        Meta(
            description="`ACTIVE`: it can be used. `INACTIVE`: it was switched off. `EXPIRED`: its "
            "time is over. `USED_UP`: all its uses are taken, by payments or by open sessions."
        ),
    ]
    active: Annotated[bool, Meta(description="false: it was switched off.")]
    product_id: Annotated[
        str | None, Meta(description="The product that it sells. Null if it sells an item.")
    ]
    item: Annotated[
        LinkItemOut | UnsetType,
        Meta(description="What it sells without a product. Not there if it sells a product."),
    ] = UNSET
    max_quantity: Annotated[
        int, Meta(ge=1, le=99, description="How many a customer may buy at once.")
    ]
    expires_at: Annotated[
        int | None, Meta(description="Until when it can be used, Unix ms. Null: for ever.")
    ]
    max_uses: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None,
        Meta(description="How many sessions of it may be open or paid. Null: any number."),
    ]
    open_sessions: Annotated[int, Meta(description="How many of its sessions can be paid now.")]
    payments: Annotated[int, Meta(description="How many of its sessions were paid.")]
    sales: Annotated[list[SalesOut], Meta(description="What they paid, for each currency.")]
    success_url: Annotated[
        str | None, Meta(description="Where the customer goes after paying. Null: nowhere.")
    ]
    payment_methods: Annotated[
        list[Method] | None,
        Meta(description="The only methods that its sessions can be paid by. Null: all on offer."),
    ]
    locale: Annotated[
        Locale | None, Meta(description="The language of its pages. Null: the browser's.")
    ]
    client_reference: Annotated[
        str | None, Meta(description="Your own number of its orders. Null if you gave none.")
    ]
    metadata: MetadataShown
    created_at: CreatedAt
    updated_at: UpdatedAt

    @classmethod
    def from_link(cls, link: PaymentLink, usage: Usage, public_url: str, now: int) -> Self:
        """Return the API's view of a link. ``now`` is Unix ms; its page is below ``public_url``."""
        return structs.convert(
            link,
            cls,
            url=link.address(public_url),
            status=state_of(link, usage, now),
            item=LinkItemOut.from_link(link),
            open_sessions=usage.open,
            payments=usage.paid,
            sales=[
                SalesOut(
                    currency=row.currency,
                    payments=row.paid,
                    amount=money.show(row.paid_minor, row.currency),
                )
                for row in usage.sales
                if row.paid
            ],
            payment_methods=link.methods,
            metadata=msgspec.Raw(link.metadata.encode()),
        )
