"""Says when each kind of mail goes out."""

from typing import Final

from opentill.web.translations import N_

MAIL_WHEN: Final = {
    "receipt": N_("When a customer has paid."),
    "refund": N_("When a payment is refunded."),
    "refund_failed": N_("When a refund to a customer is not completed."),
    "refund_refused": N_("When a refund fails."),
    "refund_reversed": N_("When the customer’s bank returns a refund."),
    "refund_at_gateway": N_("When a payment is refunded at the provider, not here."),
    "dispute_opened": N_("When a customer disputes a payment."),
    "dispute_closed": N_("When a dispute is decided."),
    "standing_changed": N_("When the operator suspends, limits or restores your account."),
    "dispute_deadline": N_("Shortly before the time to respond ends."),
    "payout_paid": N_("When the operator has sent a payout."),
    "payout_failed": N_("When a payout fails."),
    "endpoint_disabled": N_("When a webhook endpoint gets no more events."),
    "key_changed": N_("When somebody changes the API keys."),
    "endpoint_changed": N_("When somebody adds an endpoint or changes its address."),
    "account_changed": N_("When somebody changes the bank account for payouts."),
    "gateway_changed": N_("When somebody changes one of your own gateway accounts."),
    "prepaid_low": N_("When your prepaid balance pays the fees of less than three days."),
    "prepaid_empty": N_("When your prepaid balance is used up."),
    "digest": N_("Every morning, about the day before."),
    "invitation": N_("When you invite somebody to the team."),
    "reset": N_("When a member asks for a new password."),
    "new_login": N_("When a member logs in from a new place."),
    "account_change": N_("When a member’s account changes."),
}
