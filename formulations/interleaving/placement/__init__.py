"""Where running groups are, what they take of hosts, and which new groups keep their places."""
