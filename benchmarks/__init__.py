"""Placewright measured beside other ways to decide, from the repository; see README.md."""
