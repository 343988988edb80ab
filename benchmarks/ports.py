"""Blocks of ports on loopback for daemons that must be told theirs."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

__all__ = ["BLOCK", "Ports"]

BLOCK = 256
FIRST, LAST = 20_480, 32_000
"""Below the ports that Linux gives away by itself."""


class Ports:
    """A block of ports on loopback, its own until `close`.

    All blocks begin at a multiple of `BLOCK`, and the first port of each is held, so that no two
    labs that start at the same moment get one block.
    """

    def __init__(self) -> None:
        blocks = list(
            range(20_480, 32_000 - BLOCK, BLOCK)
        )  # below those that the kernel gives away
        random.Random().shuffle(blocks)
        for first in blocks:
            self._held = socket.socket()
            try:
                self._held.bind(("127.0.0.1", first))
                with ExitStack() as stack:
                    for port in range(first + 1, first + BLOCK):
                        stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                self._held.close()
                continue
            self.first = first + 1
            return
        raise RuntimeError(f"no {BLOCK} free ports in a row")

    def close(self) -> None:
        """Let others have the block."""
        self._held.close()
