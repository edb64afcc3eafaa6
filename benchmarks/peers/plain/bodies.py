"""The bodies of requests and responses, as pydantic models.

Fields that are null in every measured response are left out, so that the peer need not encode them.
"""

from typing import Any

from pydantic import BaseModel, Field, HttpUrl


class SessionIn(BaseModel):
    productId: str
    successUrl: HttpUrl | None = None
    cancelUrl: HttpUrl | None = None
    customerEmail: str = Field(default="", max_length=254, pattern=r"^[^@\s]+@[^@\s]+$|^$")
    customerName: str | None = Field(default=None, max_length=200)
    metadata: dict[str, Any] = {}


class SessionOut(BaseModel):
    id: str
    productId: str
    amount: str
    currency: str
    status: str
    url: str
    expiresAt: int
    createdAt: int


class OrderOut(BaseModel):
    id: str
    checkoutSessionId: str
    productId: str
    customerEmail: str
    customerName: str | None
    amount: str
    currency: str
    platformFeeRate: str
    platformFee: str
    netAmount: str
    settledAmount: str
    settledCurrency: str
    exchangeRate: str
    hkdExchangeRate: str | None
    paymentMethod: str | None
    status: str
    paidAt: int | None
    settledAt: int | None
    metadata: dict[str, Any]
    createdAt: int
    baseAmount: str
    payableAmount: str
    refundStatus: str
    refundedAmount: str
    payerIp: str
    updatedAt: int
    rollingReserveRate: str
    rollingReserveAmount: str
    rollingReserveStatus: str
    rollingReserveReleaseAt: int | None
    livemode: bool
    quantity: int = 1


class SessionResponse(BaseModel):
    code: int = 0
    message: str = "success"
    data: SessionOut


class OrderResponse(BaseModel):
    code: int = 0
    message: str = "success"
    data: OrderOut


class Payment(BaseModel):
    id: str
    status: str
    amount_minor: int
    currency: str
    method: str


class CallbackData(BaseModel):
    payment: Payment


class Callback(BaseModel):
    id: str
    type: str
    created_at: int
    data: CallbackData


class Done(BaseModel):
    code: int = 0
    message: str = "success"
