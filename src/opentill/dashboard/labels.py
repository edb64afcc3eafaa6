"""Texts by value, such as a status or the field of an error."""

from typing import Final

from opentill.outgoing import client
from opentill.web.translations import N_, NC_

ABOUT_BALANCE: Final = {
    "available": N_("Can be paid out to your bank."),
    "pending": N_("Paid by customers, and not settled yet."),
    "frozen": N_(
        "Held for refunds in progress, for disputes of settled payments, or by the operator."
    ),
    "reserve": N_("Your rolling reserve against chargebacks."),
    "prepaid": N_("Pays the fees of payments to your own gateway accounts."),
}
ABOUT_PAYOUT_STATUS: Final = {
    "PENDING": N_("Your bank has not confirmed it yet."),
    "PAID": N_("The bank has confirmed it."),
    "FAILED": N_("It was returned, and the money is available again."),
}
EVENT_TYPE: Final = {
    "order.paid": N_("Payment succeeded"),
    "order.refunded": N_("Payment refunded"),
    "order.closed": N_("Payment closed"),
    "order.settled": N_("Payment settled"),
    "refund.failed": N_("Refund failed"),
    "dispute.created": N_("Dispute opened"),
    "dispute.closed": N_("Dispute closed"),
    "checkout.completed": N_("Checkout session completed"),
    "checkout.expired": N_("Checkout session ended"),
    "payout.paid": N_("Payout paid"),
    "payout.failed": N_("Payout returned"),
    "webhook.test": N_("Test event"),
}
ACCENT_NOTE: Final = {
    "light": N_(
        "In the light design it is shown as {color}, so that the button stands out from the page."
    ),
    "dark": N_(
        "In the dark design it is shown as {color}, so that the button stands out from the page."
    ),
}
ACCOUNT: Final = {
    "available": N_("available"),
    "pending": N_("pending"),
    "frozen": N_("on hold"),
    "reserve": N_("reserve"),
    "prepaid": N_("prepaid"),
    "gateway": N_("customer"),
    "bank": N_("bank"),
    "platform": N_("platform"),
}
AGREEMENT_STATUS: Final = {
    "NONE": N_("The agreement is not accepted yet"),
    "OUTDATED": N_("Version {version} is new, and is not accepted yet"),
}
# The reasons of failed attempts (``outgoing/client.py``).
ATTEMPT_ERROR: Final = {
    client.UNKNOWN_HOST: N_("The host name could not be resolved (DNS)."),
    client.REFUSED: N_("The server refused the connection."),
    client.CONNECT_TIMEOUT: N_("The server did not accept the connection in time."),
    client.NO_ROUTE: N_("The server could not be reached."),
    client.EXPIRED_CERTIFICATE: N_("The server’s TLS certificate has expired."),
    client.OTHER_NAME: N_("The server’s TLS certificate was issued for another name."),
    client.WRONG_CERTIFICATE: N_("The server’s TLS certificate is not valid for this address."),
    client.NO_TLS: N_("The TLS connection to the server failed."),
    client.RESPONSE_TIMEOUT: N_("The server did not respond in time."),
    client.CLOSED: N_("The server closed the connection before its response was complete."),
    client.MALFORMED: N_("The server’s response was not valid HTTP."),
}
ATTEMPT_OUTCOME: Final = {
    "no_answer": N_("No response"),
    "unreachable": N_("Not reachable"),
    "forbidden": N_("Not sent: the address is not allowed"),
}
BALANCE_TAB: Final = {
    "": N_("Money in and out"),
    "all": N_("All movements"),
}
BALANCE: Final = {
    "available": N_("Available"),
    "pending": N_("Pending"),
    "frozen": N_("On hold"),
    "reserve": N_("In reserve"),
    "prepaid": N_("Prepaid"),
}
CAPABILITY_NOTE: Final = {
    "charge": N_("No sessions can be opened and no payments started."),
    "refund": N_("Payments cannot be refunded."),
    "payout": N_("The balance is not paid out."),
}
CHANGE_REASON: Final = {
    "payments": NC_("menu", "Payments"), "refunds": N_("Refunds"), "disputes": N_("Disputes"),
    "recovered": N_("Chargebacks recovered"), "fees": N_("Fees"),
    "dispute_fees": N_("Dispute fees"), "payouts": N_("Payouts"),
    "recharges": N_("Credits by the operator"),
    "corrections": N_("Corrections by the operator"),
}  # fmt: skip
CUSTOMER_COLUMN: Final = {
    "payments": N_("Payments"),
    "unpaid": N_("Not paid"),
    "disputed": N_("Disputed"),
    "paid": NC_("order status", "Paid"),
    "refunded": N_("Refunded"),
}
EVENT_DELIVERY: Final = {
    "FAILED": N_("Failed"),
    "RETRYING": N_("Retrying"),
    "PENDING": NC_("webhook delivery", "Pending"),
    "SUCCEEDED": N_("Delivered"),
}
DISPUTE_COLUMN: Final = {
    "opened": NC_("dispute", "Opened"),
    "customer": N_("Customer"),
    "reason": N_("Reason"),
    "state": N_("Status"),
    "deadline": N_("Respond by"),
    "amount": N_("Amount"),
}
DISPUTE_EVENT: Final = {
    "opened": NC_("dispute history", "Opened"),
    "note": N_("Note"),
    "file": N_("File added:"),
    "ACCEPTED": N_("Accepted: the customer keeps the money"),
    "CONTESTED": N_("Contested: your evidence went to the operator"),
    "forwarded": N_("Your response was sent to the bank"),
    "WON": N_("Won: the money stays yours"),
    "LOST": N_("Lost: the customer has the money back"),
    "RECOVERED": N_("Recovered: the bank returned the money"),
}
DISPUTE_DECIDED: Final = {
    "WON": N_("Won on {day}"),
    "LOST": N_("Lost on {day}"),
    "RECOVERED": N_("Recovered"),
}
DISPUTE_RESULT: Final = {
    "note": N_("Note added"),
    "file": N_("Your file is added. Nothing is sent to the bank before you contest the dispute."),
    "late-file": N_("Your file is added. The operator submits it to the bank."),
    "removed": N_("The file is removed."),
    "ACCEPTED": N_("The dispute is accepted. The operator informs the bank."),
    "CONTESTED": N_(
        "The dispute is contested. The operator submits your evidence to the bank; you can add "
        "more until the deadline."
    ),
}
ENDPOINT_RESULT: Final = {
    "added": N_("The endpoint was added. “Show secret” below shows its signing secret."),
    "changed": N_("The endpoint was saved."),
    "enabled": N_("The endpoint is enabled. What was pending is sent now."),
    "disabled": N_("The endpoint is disabled."),
    "rotated": N_(
        "The secret was replaced. The old one is still used to sign as well, for 24 hours."
    ),
    "resent": N_("It is sent again now."),
    "removed": N_("The endpoint was removed."),
}
ENDPOINT_STATUS: Final = {
    "ENABLED": N_("Enabled"),
    "DISABLED": N_("Disabled"),
}
ENTRY_SOURCE: Final = {
    "order": N_("Payment"),
    "refund": N_("Refunded payment"),
    "dispute": NC_("source", "Dispute"),
    "payout": N_("Payout"),
    "operator": N_("Operator"),
}
# Whether it is one endpoint → text.
FAILING_ENDPOINTS: Final = {
    True: N_("1 webhook endpoint is failing"),
    False: N_("{number} webhook endpoints are failing"),
}
EPAY_STATE: Final = {
    "ENABLED": N_("Enabled"),
    "DISABLED": N_("Disabled"),
}
KEY_STATE: Final = {
    "valid": N_("Active"),
    "expired": N_("Expired"),
    "revoked": N_("Revoked"),
}
LINK_PRICING: Final = {
    "fixed": N_("Fixed price"),
    "open": N_("Customer chooses"),
}
LINK_RESULT: Final = {
    "made": N_("The link is ready. Give it to your customers."),
    "on": N_("The link is active again."),
    "saved": N_("The change is saved."),
}
LINK_STATE: Final = {
    "ACTIVE": N_("Active"),
    "INACTIVE": N_("Deactivated"),
    "EXPIRED": N_("Expired"),
    "USED_UP": N_("Used up"),
}
LINK_TAB: Final = {
    "active": N_("Active"),
    "deactivated": N_("Deactivated"),
    "all": NC_("payments", "All"),
}
LOGO_ERROR: Final = {
    "none": N_("Choose a picture first"),
    "size": N_("The picture is too large: 256 kB at most"),
    "kind": N_("Choose a PNG, JPEG or WebP picture. SVG is not accepted"),
    "broken": N_("The picture is damaged or incomplete. Choose another file"),
    "moving": N_("Choose a picture that does not move"),
    "dimensions": N_(
        "Choose a picture with sides of 32 to 2048 pixels, the longer "
        "one at most ten times the shorter"
    ),
    "stale": N_(
        "Somebody else has changed the logo since you opened this "
        "page. This is the one that is shown now. Choose your picture "
        "again to replace it"
    ),
}
# The recipients of a kind of mail, with a sentence about them.
MAIL_AUDIENCE: Final = {
    "customers": (
        N_("To your customers"),
        N_("In your name, with your logo and color, in the language in which they paid."),
    ),
    "members": (N_("To your team"), N_("To the members with these roles.")),
    "persons": (N_("To one person"), N_("About their own account. They cannot be turned off.")),
}
MAIL_PERSON: Final = {
    "invitation": N_("The person you invite"),
    "reset": N_("The member who asked for it"),
    "new_login": N_("The member who logged in"),
    "account_change": N_("The member whose account it is"),
}
MAIL_RESULT: Final = {
    "again": N_("The email is sent again."),
    "saved": N_("The change is saved."),
    "test": N_("A test is on its way to {email}."),
}
MAIL_SWITCH: Final = {
    "receipts": N_("Receipts to customers"),
    "refunds": N_("Refund confirmations to customers"),
    "digest": N_("Daily digest to owners and finance, every morning"),
}
NOTICE_STATE: Final = {
    "WAITING": N_("Waiting"),
    "DELIVERED": N_("Delivered"),
    "FAILED": N_("Failed"),
}
PAYMENT_COLUMN: Final = {
    "when": N_("Created"),
    "status": N_("Status"),
    "customer": N_("Customer"),
    "email": N_("Email"),
    "product": N_("Product"),
    "method": N_("Method"),
    "reason": N_("Decline reason"),
    "order": N_("Order ID"),
    "paid": N_("Paid"),
    "settled": N_("Settled"),
    "metadata": N_("Metadata"),
    "refund_date": N_("Refunded on"),
    "refunded": N_("Refunded"),
    "fee": N_("Fee"),
    "net": N_("Net"),
    "amount": N_("Amount"),
}
PAYMENT_FILTER: Final = {
    "query": N_("Search"),
    "email": N_("Email"),
    "amount": N_("Exact amount"),
    "product": N_("Product"),
    "metadata_key": N_("Metadata key"),
    "metadata_value": N_("Metadata value"),
}
PAYMENT_FILTER_ERROR: Final = {
    "query": N_("Search for at most 200 characters"),
    "many": N_("More than 200 customers match: enter more of the name or address"),
    "email": N_("Enter the whole email address, as ada@example.com"),
    "amount": N_("Enter an amount such as 24.90 or $24.90"),
    "product": N_("Choose one of your products"),
    "metadata": N_("Enter a key of at most 64 characters and the value that it has"),
}
CUSTOMER_SORT: Final = {
    "recent": N_("Last payment"),
    "spent": N_("Total spent"),
    "payments": N_("Payments"),
    "name": N_("Name"),
}
PAYMENT_TAB: Final = {
    "": NC_("payments", "All"),
    "succeeded": NC_("order status", "Paid"),
    "refunded": NC_("payments", "Refunds"),
    "disputed": NC_("payments", "Disputed"),
    "failed": NC_("order status", "Declined"),
    "incomplete": N_("Not paid yet"),
    "closed": N_("Expired"),
    "canceled": N_("Canceled"),
}
PAYOUT_TIMELINE: Final = {
    "created": N_("Payout created, and taken from the available balance"),
    "sent": N_("Sent to the bank"),
    "expected": N_("Paid by your bank"),
    "arrived": N_("Paid: the bank has confirmed it"),
    "came back": N_("Returned, and available again"),
}
PAYOUT_STATUS: Final = {
    "PENDING": NC_("payout", "On its way"),
    "PAID": NC_("payout", "Paid"),
    "FAILED": NC_("payout", "Returned"),
}
COMPARED_PERIOD: Final = {
    "1": N_("vs. yesterday by {time}: {before}"),
    "7": N_("vs. {since} – {until}, {time}: {before}"),
    "30": N_("vs. {since} – {until}, {time}: {before}"),
}
HOME_CHART: Final = {
    "volume": N_("Volume"),
    "available": N_("Available soon"),
    "attempts": N_("Success rate"),
}
PERIOD: Final = {
    "1": N_("Today so far"),
    "7": N_("Last 7 days"),
    "30": N_("Last 30 days"),
}
PRODUCT_RESULT: Final = {
    "added": N_("The product has been added."),
    "saved": N_("The product is saved."),
    "archived": N_("The product is archived. No new session can be opened for it."),
    "restored": N_("The product is active again and can be sold."),
}
PRODUCT_STATUS: Final = {
    "ACTIVE": N_("Active"),
    "ARCHIVED": N_("Archived"),
}
PRODUCT_TAB: Final = {
    "active": N_("Active"),
    "archived": N_("Archived"),
    "all": NC_("payments", "All"),
}
PROFILE_ERROR: Final = {
    "display_name": N_("Enter a name of at most 80 characters, or leave it empty"),
    "accent_color": N_(
        "Enter a color of six hexadecimal digits such as #0d5c49, or leave it empty"
    ),
    "support_email": N_("Enter an email address such as help@example.com, or leave it empty"),
    "support_url": N_("Enter an address such as https://example.com/help, or leave it empty"),
    "terms_url": N_("Enter an address such as https://example.com/terms, or leave it empty"),
    "time_zone": N_("Choose a time zone from the list, such as Europe/Berlin"),
    "legal_name": N_("Enter a name of at most 120 characters, or leave it empty"),
    "legal_address": N_(
        "Enter an address of at most six lines of 60 characters, or leave it empty"
    ),
    "tax_number": N_("Enter a tax number of at most 40 characters, or leave it empty"),
    "tax_rate": N_("Enter a percentage from 0 to below 100 such as 19 or 8.875, or leave it empty"),
}
PROFILE_FIELD: Final = {
    "display_name": N_("Name shown to customers"),
    "accent_color": N_("Accent color"),
    "support_email": N_("Support email"),
    "support_url": N_("Help page URL"),
    "terms_url": N_("Terms of service URL"),
    "legal_name": N_("Legal name"),
    "legal_address": N_("Address"),
    "tax_number": N_("Tax number"),
    "tax_rate": N_("Tax included in prices, in percent"),
}
REFUSAL: Final = {
    "403": N_("This is not permitted"),
    "404": N_("There is no such address, or nothing of yours with this ID"),
    "405": N_("This address does not take this method"),
    "409": N_("The first request with this Idempotency-Key was still running"),
    "413": N_("The body was larger than 64 KiB"),
    "415": N_("The body was not sent as application/json"),
    "422": N_("The Idempotency-Key was used for another request before"),
    "429": N_("There were too many requests in a minute"),
    "500": N_("This was our fault. Nothing was changed"),
    "503": N_("The service could not be reached. Repeat the request"),
}
SCOPE_ACTION: Final = {
    "read": N_("Read"),
    "write": N_("Write"),
    "export": N_("Export"),
}
SCOPE_OBJECT: Final = {
    "orders": N_("Payments"),
    "refunds": N_("Refunds"),
    "checkouts": N_("Checkout sessions"),
    "payment-links": N_("Payment links"),
    "products": N_("Products"),
    "balance": N_("Balance"),
    "payouts": N_("Payouts"),
    "disputes": N_("Disputes"),
    "webhooks": N_("Webhooks"),
    "events": N_("Events"),
}
SESSION_RESULT: Final = {
    "opened": N_("The session is open. Send the link below to your customer."),
    "ended": N_("The session is ended."),
}
SESSION_STATUS: Final = {
    "OPEN": NC_("checkout session", "Open"),
    "COMPLETE": NC_("checkout session", "Complete"),
    "EXPIRED": N_("Expired"),
}
SESSION_TAB: Final = {
    "": NC_("payments", "All"),
    "OPEN": NC_("checkout session", "Open"),
    "COMPLETE": NC_("checkout session", "Complete"),
    "EXPIRED": N_("Expired"),
    "DECLINED": NC_("order status", "Declined"),
    "CANCELED": N_("Canceled"),
}
STANDING_NOTE: Final = {
    "APPLIED": N_("The application for this account has not been decided yet."),
    "SUSPENDED": N_(
        "This account is suspended. Payments that are on their way "
        "still arrive, and what was paid still settles."
    ),
    "CLOSED": N_("This account is closed."),
}
TEAM_RESULT: Final = {
    "role": N_("The role is changed."),
    "removed": N_("The member is removed and has no more access."),
    "withdrawn": N_("The invitation is withdrawn. Its link no longer works."),
}
TEST_RESULT: Final = {
    "SUCCEEDED": N_("Your server accepted it."),
    "PENDING": N_("Your server did not accept it."),
    "FAILED": N_("Your server did not accept it."),
}
