"""Network links and the arithmetic that turns published figures into them.

Bandwidth is counted per direction in Mbit/s (10**6 bit/s), latency one way in microseconds.
"""

from dataclasses import dataclass

# PCI Express base specification: transfers per lane and second, 128b/130b coded from 3.0 to 5.0.
_PCIE_GIGATRANSFERS = {3: 8, 4: 16, 5: 32}


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two nodes of a cluster.

    Parameters
    ----------
    bandwidth_mbps : int
        Mbit/s in each direction, at least 1.
    latency_us : float
        Microseconds one way, at least 0.

    Raises
    ------
    ValueError
        If the bandwidth is below 1 or the latency below 0 or not finite.
    """

    bandwidth_mbps: int
    latency_us: float

    def __post_init__(self) -> None:
        if self.bandwidth_mbps < 1:
            msg = f"link bandwidth {self.bandwidth_mbps} is too small; expected at least 1 Mbit/s"
            raise ValueError(msg)
        if not 0 <= self.latency_us < float("inf"):
            msg = f"link latency {self.latency_us} is out of range; expected 0 or more microseconds"
            raise ValueError(msg)

    def share(self, parts: int) -> "Link":
        """Return one of `parts` equal lanes of this link (bandwidth rounded down)."""
        return Link(self.bandwidth_mbps // parts, self.latency_us)

    def bundle(self, count: int) -> "Link":
        """Return `count` such links side by side as one."""
        return Link(self.bandwidth_mbps * count, self.latency_us)


def from_gigabytes(gigabytes_per_second: int) -> int:
    """Return GB/s (10**9 byte/s) as Mbit/s."""
    return gigabytes_per_second * 8_000


def pcie_mbps(generation: int, lanes: int = 16) -> int:
    """Return what a PCI Express link carries per direction after 128b/130b coding, in Mbit/s.

    Raises
    ------
    KeyError
        If the generation is not 3, 4 or 5.
    """
    return _PCIE_GIGATRANSFERS[generation] * lanes * 128_000 // 130
