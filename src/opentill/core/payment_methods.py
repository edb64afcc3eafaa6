"""The payment methods: gateways offer them, fees depend on them."""

from typing import Final, Literal, get_args

Method = Literal["CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "PAYNOW", "CRYPTO", "BANK_TRANSFER"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)
BY_NAME: Final[dict[str, Method]] = {method: method for method in METHODS}


def by_method(text: str) -> dict[Method, tuple[str, ...]]:
    """Read a list of methods, each with or without values: ``ALIPAY:CNY|HKD,PAYNOW``.

    Raises ValueError with a text that says what is accepted.
    """
    read: dict[Method, tuple[str, ...]] = {}
    for part in text.split(","):
        name, colon, words = part.strip().partition(":")
        method = BY_NAME.get(name)
        found = tuple(word.strip() for word in words.split("|")) if colon else ()
        if method is None or method in read or "" in found or len(set(found)) != len(found):
            message = f"different methods of {', '.join(METHODS)}, each at most once"
            raise ValueError(message)
        read[method] = found
    return read
