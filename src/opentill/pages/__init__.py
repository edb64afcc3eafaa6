"""What people see: the payment page, the API reference, the agreement, the front page."""
