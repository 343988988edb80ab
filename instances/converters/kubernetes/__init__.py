"""Converter of what `kubectl get -o json` prints of a cluster, and of its queues, to a round."""
