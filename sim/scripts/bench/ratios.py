"""Medians, ranges, and ratios of pairs of runs that were made one after the other."""

import math
import statistics
from dataclasses import dataclass

CONFIDENCE = 0.95
# With fewer pairs even the whole range holds the true ratio less often than that.
PAIRS_MIN = 6


@dataclass(frozen=True)
class Summary:
    """Some runs of one build."""

    median: float
    low: float
    high: float


def summary(values):
    """Returns median, smallest and largest."""
    return Summary(statistics.median(values), min(values), max(values))


def coverage(pairs, left_out):
    """Returns how often the range without `left_out` values at each end holds the true median.

    A ratio is above the true median or below it, like a coin; no other property of the noise is
    assumed.
    """
    below = sum(math.comb(pairs, k) for k in range(left_out + 1)) / 2**pairs
    return max(0.0, 1 - 2 * below)


def left_out_of(pairs):
    """Returns how many of the smallest, and of the largest, the range can do without."""
    left_out = 0
    while coverage(pairs, left_out + 1) >= CONFIDENCE:
        left_out += 1
    return left_out


def quartiles(values):
    """Returns the lower and the upper quartile; of one value, that value twice."""
    if len(values) == 1:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def interval(values):
    """Returns the range that holds the true median with CONFIDENCE, if there are PAIRS_MIN."""
    ordered = sorted(values)
    left_out = left_out_of(len(ordered))
    return ordered[left_out], ordered[-1 - left_out]


@dataclass(frozen=True)
class Ratio:
    """A against B."""

    # Of noisy runs it may lie outside of the range of the pairs.
    of_medians: float
    # The median of the pairs' ratios.
    of_pairs: float
    quartiles: tuple
    # See `interval`.
    range: tuple
    pairs: int

    def has_range(self):
        """Returns whether the pairs suffice for the range."""
        return self.pairs >= PAIRS_MIN

    def shows_difference(self):
        """Returns whether the range leaves 1 out."""
        low, high = self.range
        return self.has_range() and not low <= 1 <= high


def ratio(a, b):
    """Returns the ratio of two lists of runs; equal places are a pair."""
    pairs = [x / y for x, y in zip(a, b, strict=True)]
    return Ratio(
        of_medians=statistics.median(a) / statistics.median(b),
        of_pairs=statistics.median(pairs),
        quartiles=quartiles(pairs),
        range=interval(pairs),
        pairs=len(pairs),
    )
