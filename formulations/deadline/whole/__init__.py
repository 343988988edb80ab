"""The whole decision in one exact model: promises, their leases, and the current lease placed."""
