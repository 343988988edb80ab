"""Published scheduling policies, as a replay plays them."""
