"""Watching a cluster: read it, decide a round, write the plan, and carry it out if asked."""
