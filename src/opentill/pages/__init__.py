"""What people see: the hosted payment page, the API reference, the agreement, the front page."""
