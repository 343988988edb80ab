"""A service that other programs ask: rounds over HTTP, and kube-scheduler's extender."""
