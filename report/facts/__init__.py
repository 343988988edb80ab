"""What is shown of a round and its plan, as values: the terminal prints them, the page has them."""
