"""Live clusters: watching a running scheduler, and a service that other programs ask."""
