"""The options of the built-in gateways, which settings, forms and documents list."""

from typing import Final

import msgspec


class Option(msgspec.Struct, frozen=True):
    """A setting of a built-in gateway: ``OPENTILL_GATEWAY_`` and ``name`` in capitals."""

    gateway: str
    name: str
    text: str
    secret: bool = True
    default: str = ""
    optional: bool = False  # most accounts do without it, though it has no default
    is_file: bool = False  # the content of a file, such as a key in PEM


_METHODS: Final = "what it is used for, such as CREDIT_CARD,ALIPAY:CNY|HKD"
_EVERY_METHOD: Final = "all that it takes"
_TYPES: Final = "on offer; WECHAT_PAY=wxpay2 for a type of another name"


OPTIONS: Final = (
    Option("stripe", "stripe_secret_key", "sk_… or rk_…, of Stripe's dashboard"),
    Option("stripe", "stripe_webhook_secret", "whsec_…; several with commas while one is rotated"),
    Option(
        "stripe", "stripe_api_base", "an emulator of Stripe", secret=False,
        default="https://api.stripe.com",
    ),
    Option("epay", "epay_url", "the Epay server: the folder of its submit.php", secret=False),
    Option("epay", "epay_pid", "the number of your account there", secret=False),
    Option("epay", "epay_key", "the key of your account there"),
    Option("epay", "epay_currency", "the one that the account takes", secret=False, default="CNY"),
    Option("epay", "epay_mode", "submit: it has no mapi.php", secret=False, default="mapi"),
    Option(
        "epay", "epay_query", "post: orders are queried without the key in an address",
        secret=False, default="get",
    ),
    Option(
        "epay_v2", "epay_v2_url", "the Epay V2 server: the folder with its api/", secret=False
    ),
    Option("epay_v2", "epay_v2_pid", "the number of your account there", secret=False),
    Option(
        "epay_v2", "epay_v2_private_key", "your private RSA key, whose public half the server has",
        is_file=True,
    ),
    Option(
        "epay_v2", "epay_v2_public_key", "the platform's public RSA key, of your account page"
        " there", is_file=True,
    ),
    Option(
        "epay_v2", "epay_v2_currency", "the one that the account takes", secret=False,
        default="CNY",
    ),
    Option(
        "epay_v2", "epay_v2_page", "web: the server may return QR codes instead of pages",
        secret=False, default="jump",
    ),
    Option(
        "epay_v2", "epay_v2_refunds", "repeat: the server makes refunds of one out_refund_no only"
        " once, as OpenTill does", secret=False, default="once",
    ),
    Option("epusdt", "epusdt_url", "the epusdt server's address", secret=False),
    Option("epusdt", "epusdt_token", "the API token of the server (api_auth_token, auth_token)"),
    Option(
        "epusdt", "epusdt_server", "bepusdt: the server is that fork", secret=False,
        default="epusdt",
    ),
    Option(
        "epusdt", "epusdt_currency", "the currency of the server's amounts", secret=False,
        default="CNY",
    ),
    Option(
        "epusdt", "epusdt_trade_type", "with bepusdt, a token and its network, such as usdt.bep20;"
        " usdt.trc20 without it", secret=False, optional=True,
    ),
    Option(
        "epusdt", "epusdt_rate", "with bepusdt, how many units of the currency a token costs;"
        " the server's own rate without it", secret=False, optional=True,
    ),
    Option("alipay", "alipay_app_id", "the number of the application at Alipay", secret=False),
    Option(
        "alipay", "alipay_private_key", "the application's private key, in PEM or Base64",
        is_file=True,
    ),
    Option(
        "alipay", "alipay_public_key", "Alipay's public key, unless certificates are used",
        is_file=True,
    ),
    Option(
        "alipay", "alipay_app_cert", "the application's certificate, appCertPublicKey_….crt",
        optional=True, is_file=True,
    ),
    Option(
        "alipay", "alipay_cert", "Alipay's certificate, alipayCertPublicKey_RSA2.crt",
        optional=True, is_file=True,
    ),
    Option(
        "alipay", "alipay_root_cert", "Alipay's root certificates, alipayRootCert.crt",
        optional=True, is_file=True,
    ),
    Option(
        "alipay", "alipay_seller_id", "your Alipay account, 2088…, which receives payments;"
        " notifications about others are refused", secret=False, optional=True,
    ),
    Option(
        "alipay", "alipay_products", "the products of the account: page and wap are Alipay's pages"
        " for computers and phones, precreate is a QR code", secret=False, default="page,wap",
    ),
    Option(
        "alipay", "alipay_url", "Alipay's sandbox, for tests", secret=False,
        default="https://openapi.alipay.com/gateway.do",
    ),
    Option("wechat_pay", "wechat_pay_mchid", "the number of the merchant account", secret=False),
    Option("wechat_pay", "wechat_pay_appid", "wx…, which is bound to the account", secret=False),
    Option(
        "wechat_pay", "wechat_pay_private_key", "apiclient_key.pem, in PEM or Base64",
        is_file=True,
    ),
    Option(
        "wechat_pay", "wechat_pay_serial", "the serial number of the merchant certificate",
        secret=False,
    ),
    Option(
        "wechat_pay", "wechat_pay_certificate", "apiclient_cert.pem, instead of its number",
        optional=True, is_file=True,
    ),
    Option("wechat_pay", "wechat_pay_api_v3_key", "the APIv3 key, 32 characters"),
    Option(
        "wechat_pay", "wechat_pay_public_key_id", "PUB_KEY_ID_…; platform certificates are used"
        " without it", secret=False, optional=True,
    ),
    Option(
        "wechat_pay", "wechat_pay_public_key", "pub_key.pem, in PEM or Base64",
        optional=True, is_file=True,
    ),
    Option(
        "wechat_pay", "wechat_pay_products", "the products of the account: native is a QR code, h5"
        " opens WeChat on a phone", secret=False, default="native",
    ),
    Option(
        "wechat_pay", "wechat_pay_url", "another address of the API, for tests", secret=False,
        default="https://api.mch.weixin.qq.com",
    ),
    Option("paypal", "paypal_client_id", "the client ID of the app at PayPal", secret=False),
    Option("paypal", "paypal_client_secret", "the secret of the app at PayPal"),
    Option(
        "paypal", "paypal_webhook_id", "the id of the app's webhook, whose address is"
        " …/gateways/paypal/callback", secret=False,
    ),
    Option(
        "paypal", "paypal_merchant_id", "the id of your PayPal account, which receives payments;"
        " responses about others are not trusted", secret=False, optional=True,
    ),
    Option(
        "paypal", "paypal_ca", "the authorities, in PEM, whose certificates may sign webhooks;"
        " those for TLS without it", optional=True, is_file=True,
    ),
    Option(
        "paypal", "paypal_url", "PayPal's sandbox, for tests: https://api-m.sandbox.paypal.com",
        secret=False, default="https://api-m.paypal.com",
    ),
    Option("evm", "evm_rpc_url", "the node's address, https://… with its key"),
    Option("evm", "evm_chain_id", "the number of the chain, such as 1 for Ethereum", secret=False),
    Option(
        "evm", "evm_xpub", "the extended public key (xpub…) of the account that receives payments;"
        " never a private key"
    ),
    Option(
        "evm", "evm_tokens", "the tokens that are taken; USDT:0x…:6 where they are not known",
        secret=False, default="USDT,USDC",
    ),
    Option(
        "evm", "evm_confirmations", "the blocks after which a transfer counts; without it, as"
        " many as are usual on the chain", secret=False, optional=True,
    ),
    Option(
        "manual", "manual_instructions", "how to transfer money; …_EUR and the like for one"
        " currency, …_FILE for text in a file", secret=False,
    ),
    *(
        Option(name, f"{name}_methods", text, secret=False, default=default)
        for name, text, default in (
            ("stripe", _METHODS, _EVERY_METHOD),
            ("epusdt", _METHODS, _EVERY_METHOD),
            ("epay", _TYPES, "ALIPAY,WECHAT_PAY"),
            ("epay_v2", _TYPES, "ALIPAY,WECHAT_PAY"),
            ("alipay", _METHODS, _EVERY_METHOD),
            ("wechat_pay", _METHODS, _EVERY_METHOD),
            ("paypal", _METHODS, _EVERY_METHOD),
            ("evm", _METHODS, _EVERY_METHOD),
            ("manual", _METHODS, _EVERY_METHOD),
            ("sandbox", _METHODS, _EVERY_METHOD),
        )
    ),
)  # fmt: skip
