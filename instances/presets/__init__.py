"""From a round to a round that asks something of its running jobs."""
