"""Groups kept in place, matched and joined."""
