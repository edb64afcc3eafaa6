"""Settlement of orders: from pending to available, and the rolling reserve."""
