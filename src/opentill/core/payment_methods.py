"""Payment methods."""

from typing import Final, Literal, get_args

Method = Literal["CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "PAYNOW", "CRYPTO", "BANK_TRANSFER"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)
BY_NAME: Final[dict[str, Method]] = {method: method for method in METHODS}


def parse_methods(text: str) -> dict[Method, tuple[str, ...]]:
    """Parse a list of methods, each with or without values: ``ALIPAY:CNY|HKD,PAYNOW``.

    Raises ValueError, whose text says what is accepted.
    """
    values: dict[Method, tuple[str, ...]] = {}
    for part in text.split(","):
        name, colon, words = part.strip().partition(":")
        method = BY_NAME.get(name)
        method_values = tuple(word.strip() for word in words.split("|")) if colon else ()
        if (
            method is None
            or method in values
            or "" in method_values
            or len(set(method_values)) != len(method_values)
        ):
            message = f"different methods of {', '.join(METHODS)}, each at most once"
            raise ValueError(message)
        values[method] = method_values
    return values
