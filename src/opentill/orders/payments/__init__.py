"""Payment attempts: starting them, applying their outcomes, and sending second payments back."""
