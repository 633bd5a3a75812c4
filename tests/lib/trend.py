"""Whether a quantity grows with every cycle: by its slope, not by a difference and a slack.

A look at the memory of Linux is off by what Linux happens to hold at that moment (noise), and rises
once where a cache is filled for the first time (a step). A leak is neither: it is a slope, which
remains however long one goes on. So the series is fitted with a straight line and as many steps as
it clearly has, and the line's slope is judged with its standard error.
"""

import itertools
import math

# Cycles from which on a series can be judged.
LEAST = 20
# Standard errors between the slope and what it is taken to be at most.
ERRORS = 4


class Trend:
    """The slope of a series, per cycle, its standard error, and where its steps are."""

    def __init__(self, slope, error, steps, noise):
        self.slope, self.error, self.steps, self.noise = slope, error, steps, noise

    @property
    def low(self):
        return self.slope - ERRORS * self.error

    @property
    def high(self):
        return self.slope + ERRORS * self.error

    def __str__(self):
        steps = f', steps after {", ".join(map(str, self.steps))}' if self.steps else ''
        return (f'slope {self.slope:.2f} ± {ERRORS * self.error:.2f} KiB a cycle, '
                f'noise {self.noise:.0f} KiB{steps}')


class Sums:
    """Of a series' values up to an index, so that a fit costs as many operations as it has steps."""

    def __init__(self, series):
        middle = sum(series) / len(series)  # small numbers: no digits lost in the squares
        self.series = [value - middle for value in series]
        self.values, self.products, self.squares = [0], [0], [0]
        for n, value in enumerate(self.series):
            self.values.append(self.values[-1] + value)
            self.products.append(self.products[-1] + n * value)
            self.squares.append(self.squares[-1] + value * value)

    def runs(self, steps):
        """First index, length, middle and mean of what lies between the steps."""
        bounds = [0, *steps, len(self.series)]
        for first, end in zip(bounds, bounds[1:]):
            yield first, end, (first + end - 1) / 2, (self.values[end] - self.values[first]) / (end - first)

    def fit(self, steps):
        """Least squares for a line with steps before these indices: its slope, the squares of the cycles' numbers, and
        the squares of what the line misses.

        Each run between steps has a level, and all have one slope. So the slope is that of the series whose runs have
        their own means taken away."""
        here = both = there = 0
        for first, end, middle, mean in self.runs(steps):
            length = end - first
            here += length * (length * length - 1) / 12
            both += self.products[end] - self.products[first] - length * middle * mean
            there += self.squares[end] - self.squares[first] - length * mean * mean
        return both / here, here, max(there - both * both / here, 0)


def fitting(sums, count):
    """The steps that the series clearly has, at most three, and the squares of what is left."""
    # Memory comes in pages: a smaller spread than that of rounding to 4 KiB proves nothing.
    rounding = count * 16 / 12

    def best(choices):
        return min((sums.fit(sorted(steps))[2] + rounding, tuple(sorted(steps))) for steps in choices)
    fits = [best([()]), best([(at,) for at in range(1, count)]),
            # Together: of two steps, each alone may explain nothing.
            best(itertools.combinations(range(1, count), 2))]
    fits.append(best([(*fits[2][1], at) for at in range(1, count) if at not in fits[2][1]]))
    # Bayesian information criterion, for two more parameters a step (where, and how high), doubled:
    # of so many places the best one always fits a little better.
    left, steps = min(fits, key=lambda fit: count * math.log(fit[0]) + len(fit[1]) * 4 * math.log(count))
    return steps, left


def trend(series):
    """The trend of a series of one value a cycle."""
    count = len(series)
    if count < LEAST:
        raise ValueError(f'{count} cycles are too few to judge: at least {LEAST}')
    sums = Sums(series)
    steps, left = fitting(sums, count)
    slope, squares, _ = sums.fit(steps)
    variance = left / (count - 2 - 2 * len(steps))
    # Noise that lasts for more than a cycle says less than so many cycles seem to.
    rest = [sums.series[n] - mean - slope * (n - middle)
            for first, end, middle, mean in sums.runs(steps) for n in range(first, end)]
    total = sum(value * value for value in rest)
    alike = sum(one * other for one, other in zip(rest, rest[1:])) / total if total else 0
    alike += (1 + 3 * max(alike, 0)) / count  # of few values it is found too small by as much
    alike = min(max(alike, 0), 0.8)
    error = math.sqrt(variance / squares * (1 + alike) / (1 - alike))
    return Trend(slope, error, steps, math.sqrt(variance))


def judge(series, page):
    """(verdict, trend). 'grows': the series surely grows, by more than a quarter of `page` a cycle. 'steady': it surely
    grows by less than half of that. None: more cycles are needed."""
    seen = trend(series)
    if seen.low > page / 4:
        return 'grows', seen
    if seen.high < page / 2:
        return 'steady', seen
    return None, seen


def watch(look, bounds, most=120):
    """Calls `look` (a cycle; returns quantities by name) until it is clear which of them grow by their
    bound a cycle. Returns the names of those that do, and the series of each.

    What grows has to go on growing when it is looked at afresh: caches that fill do not. What has not
    become clear after `most` cycles counts as growing.
    """
    series = {name: [] for name in bounds}
    first = dict.fromkeys(bounds, 0)
    unclear = set(bounds)
    grown = set()
    for count in range(1, most + 1):
        for name, value in look().items():
            series[name].append(value)
        for name in sorted(unclear):
            recent = series[name][first[name]:]
            if len(recent) < LEAST or len(recent) % 5:
                continue
            verdict, _ = judge(recent, bounds[name])
            if verdict == 'steady' or verdict == 'grows' and first[name]:
                unclear.remove(name)
                grown |= {name} if verdict == 'grows' else set()
            elif verdict == 'grows':
                first[name] = count
            elif len(recent) >= 3 * LEAST:
                # Only the latest: what was in the beginning, when caches were filled, is not judged
                # for ever.
                first[name] = count - LEAST
        if not unclear or grown:
            break
    return grown or unclear, series
