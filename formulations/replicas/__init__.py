"""The formulation `replicas`: where data lives, and with it where jobs are to run."""
