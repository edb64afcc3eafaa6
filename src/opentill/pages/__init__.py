"""Pages of customers (payment page, payment links, receipts), the front page, the agreement."""
