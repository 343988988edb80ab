"""Why a job waits, and what it would cost to start it all the same."""
