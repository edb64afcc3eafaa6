"""Texts about gateway accounts that pages of staff and of merchants choose by a value."""

from collections.abc import Mapping
from typing import Final

from opentill.web.translations import N_, NC_

GATEWAY_ACCOUNT_STATE: Final = {
    "ACTIVE": N_("Active"),
    "PAUSED": NC_("gateway account", "Paused"),
    "RETIRED": NC_("gateway account", "Retired"),
    "BROKEN": N_("Paused itself"),
    "UNREADABLE": N_("Cannot be used"),
    "UNREACHABLE": N_("Not reachable"),
}
# The class of the badge of each state.
GATEWAY_ACCOUNT_BADGE: Final = {
    "ACTIVE": "status-active",
    "PAUSED": "status-suspended",
    "RETIRED": "",
    "BROKEN": "status-failed",
    "UNREADABLE": "status-failed",
    "UNREACHABLE": "status-failed",
}
GATEWAY_ACCOUNT_RESULT: Final = {
    "ACTIVE": N_("The account takes payments again."),
    "PAUSED": N_("The account is paused. Its payments and refunds go on."),
    "RETIRED": N_("The account is retired. Its payments and refunds go on."),
    "unchecked": N_(
        "The account is saved and paused, because its credentials were not checked. Check them, "
        "then resume it."
    ),
    "added": N_("The account is added. Every server uses it within five seconds."),
    "accepted": N_("The provider accepts the account."),
    "rotated": N_("The credentials are replaced. The old ones verify callbacks for 24 hours."),
    "terms": N_("The terms are saved. Every server uses them within five seconds."),
}
# Gateways, and the bank as a source of reports.
GATEWAY_TITLE: Final = {
    "bank": N_("Bank"),
    "alipay": N_("Alipay"),
    "epay": NC_("gateway", "Epay"),
    "epay_v2": NC_("gateway", "Epay V2"),
    "epusdt": NC_("gateway", "epusdt"),
    "evm": N_("USDT and USDC"),
    "paypal": NC_("gateway", "PayPal"),
    "sandbox": N_("Sandbox bank"),
    "stripe": NC_("gateway", "Stripe"),
    "wechat_pay": N_("WeChat Pay"),
}
GATEWAY_ABOUT: Final = {
    "alipay": N_("Your own contract with Alipay"),
    "epay": N_("A server that speaks the Epay (易支付) protocol"),
    "epay_v2": N_("A server that speaks Epay (易支付) V2, which signs by RSA"),
    "epusdt": N_("A server of the epusdt family, which takes USDT into your own wallets"),
    "evm": N_("Stablecoins on Ethereum and compatible chains, to addresses of your own wallet"),
    "paypal": N_("Cards and PayPal accounts"),
    "sandbox": N_("A simulated bank, for tests"),
    "stripe": N_("Cards and wallets"),
    "wechat_pay": N_("Your own contract with WeChat Pay"),
}
# Where one finds the credentials: the provider's page, and what to do there.
GATEWAY_KEYS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "stripe": (
        ("https://dashboard.stripe.com/apikeys", N_("API keys at Stripe")),
        ("https://dashboard.stripe.com/webhooks", N_("Webhooks at Stripe")),
    ),
    "paypal": (("https://developer.paypal.com/dashboard/applications", N_("Apps at PayPal")),),
    "alipay": (("https://open.alipay.com/develop/manage", N_("Applications at Alipay")),),
    "wechat_pay": (("https://pay.weixin.qq.com", N_("Merchant platform of WeChat Pay")),),
}
# Gateways at which a webhook with the account's callback address is created at the provider.
GATEWAY_WEBHOOK: Final = {
    "stripe": N_(
        "Create a webhook endpoint with this address; its signing secret belongs into the form."
    ),
    "paypal": N_("Create a webhook with this address; its ID belongs into the form."),
}
# The credentials of each gateway by ``GATEWAY_NAME``, as `registry.credential_options` names them.
CREDENTIAL: Final = {
    "alipay_app_id": N_("App ID"),
    "alipay_private_key": N_("Private key of the application"),
    "alipay_public_key": N_("Alipay’s public key"),
    "alipay_app_cert": N_("Certificate of the application"),
    "alipay_cert": N_("Alipay’s certificate"),
    "alipay_root_cert": N_("Alipay’s root certificates"),
    "alipay_seller_id": N_("Seller ID"),
    "alipay_products": N_("Products"),
    "alipay_url": N_("Address of the API"),
    "epay_url": N_("Address of the server"),
    "epay_pid": N_("Account number"),
    "epay_key": N_("Key"),
    "epay_currency": N_("Currency"),
    "epay_mode": N_("How payments are started"),
    "epay_query": N_("How orders are queried"),
    "epay_v2_url": N_("Address of the server"),
    "epay_v2_pid": N_("Account number"),
    "epay_v2_private_key": N_("Your private key"),
    "epay_v2_public_key": N_("The platform’s public key"),
    "epay_v2_currency": N_("Currency"),
    "epay_v2_page": N_("What customers get"),
    "epay_v2_refunds": N_("When a refund’s response was lost"),
    "epusdt_url": N_("Address of the server"),
    "epusdt_token": N_("API token"),
    "epusdt_server": N_("Kind of server"),
    "epusdt_currency": N_("Currency"),
    "epusdt_trade_type": N_("Token and network"),
    "epusdt_rate": N_("Rate"),
    "evm_rpc_url": N_("Address of the node"),
    "evm_chain_id": N_("Number of the chain"),
    "evm_xpub": N_("Extended public key"),
    "evm_tokens": N_("Tokens"),
    "evm_confirmations": N_("Confirmations"),
    "paypal_client_id": N_("Client ID"),
    "paypal_client_secret": N_("Secret"),
    "paypal_webhook_id": N_("Webhook ID"),
    "paypal_merchant_id": N_("Merchant ID at PayPal"),
    "paypal_ca": N_("Authorities that sign webhooks"),
    "paypal_url": N_("Address of the API"),
    "sandbox_url": N_("Address of the bank"),
    "sandbox_secret": N_("Secret"),
    "stripe_secret_key": N_("Secret key"),
    "stripe_webhook_secret": N_("Webhook signing secret"),
    "stripe_api_base": N_("Address of the API"),
    "wechat_pay_mchid": N_("Merchant number"),
    "wechat_pay_appid": N_("App ID"),
    "wechat_pay_private_key": N_("Private key of the merchant"),
    "wechat_pay_serial": N_("Serial number of the merchant certificate"),
    "wechat_pay_certificate": N_("Merchant certificate"),
    "wechat_pay_api_v3_key": N_("APIv3 key"),
    "wechat_pay_public_key_id": N_("ID of WeChat Pay’s public key"),
    "wechat_pay_public_key": N_("WeChat Pay’s public key"),
    "wechat_pay_products": N_("Products"),
    "wechat_pay_url": N_("Address of the API"),
}
CREDENTIAL_HINT: Final = {
    "alipay_private_key": N_("In PEM or Base64, as Alipay’s key tool saves it."),
    "alipay_public_key": N_("In PEM or Base64. Leave it out if you paste three certificates."),
    "alipay_app_cert": N_("The content of appCertPublicKey_….crt."),
    "alipay_cert": N_("The content of alipayCertPublicKey_RSA2.crt."),
    "alipay_root_cert": N_("The content of alipayRootCert.crt."),
    "alipay_seller_id": N_(
        "2088…, your Alipay account, which receives payments. Notifications about others "
        "are refused."
    ),
    "alipay_products": N_("page and wap are Alipay’s pages, precreate is a QR code."),
    "alipay_url": N_("Another one for tests, such as Alipay’s sandbox."),
    "epay_url": N_("The folder of its submit.php."),
    "epay_mode": N_("mapi, or submit if the server has no mapi.php."),
    "epay_query": N_("get, or post so that the key is in no address."),
    "epay_v2_url": N_("The address before api/pay/create."),
    "epay_v2_private_key": N_("In PEM or Base64. Its public half belongs into your account there."),
    "epay_v2_public_key": N_("In PEM or Base64, as your account page there shows it."),
    "epay_v2_page": N_("jump is the server’s page, web may be a QR code."),
    "epay_v2_refunds": N_(
        "once, or repeat if the server makes refunds of one number only once, as OpenTill does."
    ),
    "epusdt_token": N_("api_auth_token or auth_token in the settings of the server."),
    "epusdt_server": N_("epusdt, or bepusdt for that fork."),
    "epusdt_currency": N_("Of the server’s amounts. Its documents name CNY."),
    "epusdt_trade_type": N_("With bepusdt: usdt.trc20, usdt.bep20 and others."),
    "epusdt_rate": N_("With bepusdt: units of the currency for one token, such as 7.2 or ~1.02."),
    "evm_rpc_url": N_("https://… of its JSON-RPC, with the key of your node service."),
    "evm_chain_id": N_(
        "1 is Ethereum, 56 BNB Smart Chain, 137 Polygon, 8453 Base, 42161 Arbitrum."
    ),
    "evm_xpub": N_(
        "xpub… of the account m/44'/60'/0' of a wallet that is used for nothing else. Never enter "
        "a private key or recovery words."
    ),
    "evm_tokens": N_("USDT,USDC, or USDT:0x…:6 where the contract is not known."),
    "evm_confirmations": N_("Without a number, as many blocks as are usual on the chain."),
    "paypal_webhook_id": N_("Of the app’s webhook. Its address is shown after saving."),
    "paypal_merchant_id": N_("Your PayPal account, which receives payments."),
    "paypal_ca": N_("In PEM. Without them, those for TLS."),
    "paypal_url": N_("For tests: https://api-m.sandbox.paypal.com"),
    "sandbox_url": N_(
        "This deployment’s own bank is filled in. Of another one: its OPENTILL_SANDBOX_URL."
    ),
    "sandbox_secret": N_(
        "Leave it empty for this deployment’s own bank. Of another one: its "
        "OPENTILL_SANDBOX_SECRET, or the file sandbox.key of its data directory."
    ),
    "stripe_secret_key": N_("sk_… or rk_…, from Stripe’s dashboard."),
    "stripe_webhook_secret": N_("whsec_…; several with commas while one is rotated."),
    "stripe_api_base": N_("Another one for tests."),
    "wechat_pay_appid": N_("wx…, which is bound to the merchant account."),
    "wechat_pay_private_key": N_("The content of apiclient_key.pem."),
    "wechat_pay_serial": N_("Leave it out if you paste the certificate."),
    "wechat_pay_certificate": N_("The content of apiclient_cert.pem."),
    "wechat_pay_api_v3_key": N_("32 characters."),
    "wechat_pay_public_key_id": N_("PUB_KEY_ID_…; without it, platform certificates are used."),
    "wechat_pay_public_key": N_("The content of pub_key.pem."),
    "wechat_pay_products": N_("native is a QR code, h5 opens WeChat on a phone."),
    "wechat_pay_url": N_("Another one for tests."),
}
# States of a merchant's own account, as the merchant sees them.
OWN_ACCOUNT_STATE: Final = GATEWAY_ACCOUNT_STATE | {"UNFUNDED": N_("Needs prepaid balance")}
OWN_ACCOUNT_BADGE: Final = GATEWAY_ACCOUNT_BADGE | {"UNFUNDED": "status-pending"}
