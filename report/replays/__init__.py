"""One self-contained page about replays of several policies side by side."""
