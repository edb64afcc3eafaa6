"""English sentences of mails."""

from typing import Final

SENTENCES: Final[dict[str, str]] = {
    "test_mark": "TEST",
    "ask": "Need help? Ask {shop}:",
    "CREDIT_CARD": "Card",
    "ALIPAY": "Alipay",
    "WECHAT_PAY": "WeChat Pay",
    "PAYNOW": "PayNow",
    "CRYPTO": "Crypto",
    "BANK_TRANSFER": "Bank transfer",
    "fact_item": "Item",
    "fact_amount": "Amount",
    "fact_method": "Paid with",
    "fact_paid_at": "Paid",
    "fact_order": "Order",
    "fact_reference": "Order number of the shop",
    "fact_refund": "Given back",
    "fact_refunded": "Given back in all",
    "fact_refunded_at": "When",
    "fact_reason": "Reason",
    "fact_deadline": "Respond until",
    "fact_bank": "Bank reference",
    "fact_what": "What",
    "fact_who": "By whom",
    "fact_when": "When",
    "fact_device": "Device",
    "fact_address": "Address",
    "fact_until": "Works until",
    "fact_calls_itself": "The merchant calls itself",
    "fact_invited_by": "Invited by",
    "receipt_subject": "Your receipt from {shop}",
    "receipt_text": "Thank you. {shop} has received your payment of {amount}.",
    "receipt_open": "See the receipt",
    "refund_subject": "{shop} has given back {amount}",
    "refund_text": "{shop} has given back {amount} to you.",
    "refund_days": "It can take some days until your bank shows it.",
    "refund_failed_subject": "{shop}: your refund of {amount} failed",
    "refund_failed_text": "{shop} refunded {amount} to you, but your bank or payment provider sent "
    "the money back. The refund to your card or account could not be completed.",
    "refund_failed_else": "{shop} has been informed and can refund you again. If it does not "
    "contact you, please contact the shop.",
    "refund_reversed_subject": "A refund of {amount} was reversed",
    "refund_reversed_text": "A refund by {shop} succeeded at first, but the customer’s bank sent "
    "the money back. The amount is on your balance again, and the customer did not get it. You "
    "can refund the payment again.",
    "refund_at_gateway_subject": "A payment was refunded at the payment provider: {amount}",
    "refund_at_gateway_text": "{amount} of a payment to {shop} was refunded directly at the "
    "payment provider, not through OpenTill. The amount was taken from your balance.",
    "refund_report_open": "See the payment",
    "dispute_subject": "A payment of {amount} is disputed",
    "dispute_text": "A customer of {shop} disputes a payment. If you can show that it was "
    "right, hand in evidence before the deadline: without a response the money is usually lost.",
    "dispute_no_deadline": "nobody has named a time yet",
    "dispute_open": "Respond to the dispute",
    "payout_paid_subject": "A payout of {amount} has been paid",
    "payout_paid_text": "A payout of {shop} has left for your bank.",
    "payout_failed_subject": "A payout of {amount} has failed",
    "payout_failed_text": "A payout of {shop} could not be sent. Its money is available again.",
    "payout_returned_subject": "Your bank returned a payout of {amount}",
    "payout_returned_text": "Your bank returned a payout of {shop} that had been sent. Its money "
    "is available again.",
    "payout_waits_text": "Unless you have changed your bank account since then, the next payout "
    "waits until an owner of your team enters another account or the operator confirms this one. "
    "If it is closed or wrong, enter another one on the page of payouts; if it is right, write to "
    "the operator.",
    "payout_open": "See the payout",
    "endpoint_subject": "A webhook endpoint of {shop} was switched off",
    "endpoint_text": "OpenTill sends no more events to an endpoint of {shop}, because it "
    "does not take them. Once it is switched on again, only those that wait already are "
    "sent. What happens until then is not sent by itself: send it from the page Events of the "
    "dashboard, or read it from /v1/events.",
    "endpoint_open": "See the endpoints",
    "endpoint_changed_subject": "A webhook address of {shop} was changed",
    "endpoint_changed_text": "Events of {shop}, such as payments of customers, go to a new "
    "address. If nobody on your team changed it, change the address back, rotate its secret and "
    "change your passwords.",
    "endpoint_changed_open": "See the endpoints",
    "key_subject": "An API key of {shop} was changed",
    "key_text": "Somebody has created, replaced or revoked an API key of {shop}. If that was "
    "none of you, revoke the key and change your passwords.",
    "key_open": "See the keys",
    "account_subject": "The bank account of {shop} was changed",
    "account_text": "Somebody has entered the bank account that payouts of {shop} go to. If that "
    "was none of you, write to whoever runs the payments at once, and change your passwords.",
    "account_open": "See the bank account",
    "login_subject": "New login to your account",
    "login_text": "Somebody has logged in to your account where it was not seen before.",
    "login_else": "If that was you, there is nothing to do. If not, end that login and "
    "change your password at once.",
    "login_open": "See your logins",
    "invitation_subject": "You are invited to a team on OpenTill",
    "invitation_text": "You are invited to a team on OpenTill. Whoever invites you chose "
    "the names below themselves; nobody has checked them.",
    "invitation_open": "Accept the invitation",
    "invitation_else": "If you did not expect this, ignore this mail.",
    "link_once": "The link works once, for 24 hours. Whoever has it can use it: do not pass it on.",
    "reset_subject": "Choose a new password",
    "reset_text": "Somebody, hopefully you, wants to choose a new password for this address.",
    "reset_offered": "Whoever runs the payments has made a link for that, which still works: "
    "follow that one. If you do not have it, ask them for another.",
    "reset_open": "Choose a new password",
    "reset_else": "If that was not you, ignore this mail: your password stays as it is.",
    "digest_subject": "{shop}: {date}",
    "digest_text": "What happened on {date} ({zone}).",
    "digest_nothing": "Nothing was paid, refunded or disputed on {date} ({zone}).",
    "digest_payments": "Payments",
    "digest_paid": "Paid",
    "digest_refunded": "Refunded",
    "digest_disputed": "Lost to disputes",
    "digest_net": "Left, after fees",
    "digest_open": "See the dashboard",
    "digest_off": "An owner can turn this daily message off in the settings.",
    "violated_subject": "The books are wrong",
    "violated_text": "The continuous check of the ledger has found {number} violations. Look "
    "into them before you pay anybody out:",
    "stuck_subject": "The gateway {gateway} does not respond",
    "stuck_text": "Payments through {gateway} have been waiting for a response for a long "
    "time. Customers may have paid; OpenTill goes on asking.",
    "stuck_payments": "Payments",
    "stuck_since": "The oldest since",
    "fact_merchant": "Merchant",
    "approval_subject": "{kind} of {amount}: a second person is needed",
    "approval_text": "This waits for somebody else than who asked for it. Nothing has moved yet.",
    "approval_open": "See the approvals",
    "deadline_subject": "Disputed payment of {amount}: less than {left} to respond",
    "deadline_text": "A dispute of {shop} can be responded to for less than {left}, and no "
    "evidence was handed in. Without a response the money is usually lost.",
    "deadline_open": "Respond to the dispute",
    "deadline_staff_text": "A dispute of {shop} can be responded to for less than {left}. The "
    "merchant has handed in no evidence.",
    "deadline_staff_responded": "A dispute of {shop} can be responded to for less than {left}. The "
    "merchant has handed in evidence: send it to the bank, and note at the dispute that you did.",
    "deadline_staff_open": "See the dispute",
    "test_subject": "A test of OpenTill's mail",
    "test_text": "If you read this, mail works.",
}
