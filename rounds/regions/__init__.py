"""The rounds of regions, side by side, in this process, in others or on a cluster."""
