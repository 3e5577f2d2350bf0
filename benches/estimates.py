"""Statistics of the benchmarks: intervals by Student's t, components of variance, and coverage. Pure numbers."""

from math import exp, inf, lgamma, log, sqrt
from statistics import fmean, stdev, variance

CONFIDENCE = 0.95


def beta(x, a, b):
    """Regularized incomplete beta function I_x(a, b), by its continued fraction (Numerical Recipes, section 6.4)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x)) / a
    # Lentz's method: `c` and `d` are ratios of successive numerators and denominators.
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 1000):
        for term in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                     -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d, c = 1 / (1 + term * d), 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return front * fraction


def bisected(is_below, low, high):
    """The number between `low` and `high` at which `is_below` changes from true to false."""
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2


def t_quantile(freedom, confidence=CONFIDENCE):
    """The t for which Student's distribution has the share `confidence` between −t and t."""
    beyond = lambda t: beta(freedom / (freedom + t * t), freedom / 2, 0.5)
    return bisected(lambda t: beyond(t) > 1 - confidence, 0, 1e4)


def f_beyond(ratio, above, below):
    """Chance that Fisher's F with these degrees of freedom is at least `ratio`."""
    return beta(below / (below + above * ratio), below / 2, above / 2) if ratio < inf else 0.0


def share_interval(count, of, confidence=CONFIDENCE):
    """Interval of the probability of an event that happened `count` times in `of` (Clopper and Pearson, 1934)."""
    tail = (1 - confidence) / 2
    low = bisected(lambda p: beta(p, count, of - count + 1) < tail, 0, 1) if count else 0.0
    high = bisected(lambda p: beta(p, count + 1, of - count) < 1 - tail, 0, 1) if count < of else 1.0
    return low, high


def around(estimate, half):
    return {"estimate": estimate, "low": estimate - half, "high": estimate + half}


def of_mean(values):
    """Mean with Student's interval."""
    return around(fmean(values), t_quantile(len(values) - 1) * stdev(values) / sqrt(len(values)))


def difference(first, second):
    """Difference of means, second − first, with Welch's interval of independent samples."""
    shares = [variance(sample) / len(sample) for sample in (first, second)]
    of = sum(shares)
    if of == 0:
        return around(fmean(second) - fmean(first), 0)
    freedom = of**2 / sum(share**2 / (len(sample) - 1) for share, sample in zip(shares, (first, second)))
    return around(fmean(second) - fmean(first), t_quantile(freedom) * sqrt(of))


def half_width(interval):
    """Half of an interval. The lower end can be cut off at zero, so this is the distance to the upper end."""
    return None if interval["high"] is None else interval["high"] - interval["estimate"]


def components(runs, within=None):
    """Components of variance of trials in runs: one-way analysis of variance with random effects.

    `runs` has one list of trials' values per run. `within` is the mean variance of a value within its trial, if it is
    known; otherwise it is part of `trials`. Returns the variances `within`, `trials`, `runs`, and `p`: the chance of so
    much scatter between runs if runs were alike. A negative component counts as zero (S. R. Searle, G. Casella and
    C. E. McCulloch, *Variance Components*, 1992). None with less than two runs of two trials.
    """
    runs = [run for run in runs if len(run) > 1]
    if len(runs) < 2:
        return None
    count = sum(map(len, runs))
    inside, across = count - len(runs), len(runs) - 1
    grand = fmean(value for run in runs for value in run)
    mean_inside = sum(variance(run) * (len(run) - 1) for run in runs) / inside
    mean_across = sum(len(run) * (fmean(run) - grand)**2 for run in runs) / across
    # The effective number of trials per run; the plain number if all runs have the same.
    each = (count - sum(len(run)**2 for run in runs) / count) / across
    within = min(within or 0.0, mean_inside)
    return {"within": within, "trials": mean_inside - within, "runs": max(0.0, (mean_across - mean_inside) / each),
            "each": each, "p": f_beyond(mean_across / mean_inside if mean_inside else inf, across, inside)}


def covered(intervals):
    """Number of intervals that contain the true value, which is approximated by the mean of all n estimates.

    An estimate is closer to this mean than to the true value, because the mean contains the estimate itself. A mean
    without it would be too far away instead, because that mean scatters too. The distance from the mean of all,
    times √(n ÷ (n − 1)), scatters exactly as the distance from the true value does.
    """
    count = len(intervals)
    centre = fmean(one["estimate"] for one in intervals)
    stretch = sqrt(count / (count - 1))
    at = lambda one: one["estimate"] - (one["estimate"] - centre) * stretch
    return sum(one["low"] <= at(one) <= one["high"] for one in intervals)


def neighbors(values):
    """Lag-1 autocorrelation of a series; None if it is too short or constant."""
    centre = fmean(values) if values else 0
    total = sum((value - centre)**2 for value in values)
    if len(values) < 3 or total == 0:
        return None
    return sum((one - centre) * (two - centre) for one, two in zip(values, values[1:])) / total
