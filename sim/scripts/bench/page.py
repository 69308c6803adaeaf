"""Lines of the page."""

import math

import ratios

NAME_COLUMNS = 30
FIGURE_COLUMNS = 23


def number(value):
    """Returns a number with three digits that count."""
    if value <= 0:
        return f"{value:g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def spread(pair):
    """Returns a range of figures or ratios."""
    return f"{number(pair[0])}..{number(pair[1])}"


def figures(values):
    """Returns median and range of some runs."""
    if not values:
        return "failed"
    found = ratios.summary(values)
    return f"{number(found.median)} ({number(found.low)}..{number(found.high)})"


def heading(has_base):
    """Returns the names of the columns of the first table."""
    columns = (f"{'row':<{NAME_COLUMNS}} {'unit, better':<12} "
               f"{'A: median (range)':<{FIGURE_COLUMNS}}")
    if has_base:
        columns += (f" {'B: median (range)':<{FIGURE_COLUMNS}} {'A/B':<5} {'quartiles':<12}"
                    f" {'range':<12} verdict")
    return columns.rstrip()


def verdict(ratio, less_is_better, names=("A", "B")):
    """Returns which of two is better, if the range of their ratios shows it."""
    if not ratio.has_range():
        return f"too few runs ({ratio.pairs})"
    if not ratio.shows_difference():
        return "no difference shown"
    return f"{names[0] if (ratio.of_pairs < 1) == less_is_better else names[1]} better"


def compared(row, a, ratio=None, b=None):
    """Returns the line of a row in the first table."""
    better = f"{row.unit}, {'less' if row.less_is_better else 'more'}"
    line = f"{row.name:<{NAME_COLUMNS}} {better:<12} {figures(a):<{FIGURE_COLUMNS}}"
    if b is not None:
        line += f" {figures(b):<{FIGURE_COLUMNS}}"
    if ratio:
        line += (f" {number(ratio.of_pairs):<5} {spread(ratio.quartiles):<12}"
                 f" {spread(ratio.range):<12} {verdict(ratio, row.less_is_better)}")
    return line.rstrip()


def beside_limit(row, pairs):
    """Returns the line of a row in the table of limits; `pairs` are its figures and the limits."""
    multiples = [row.bound.multiple(figure, limit) for figure, limit in pairs]
    own = ratios.summary([figure for figure, _ in pairs]).median
    limit = ratios.summary([limit for _, limit in pairs]).median
    return (f"{row.name:<{NAME_COLUMNS}} {number(own) + ' ' + row.unit:<11} "
            f"{row.bound.limit.name:<28} {number(limit) + ' ' + row.bound.limit.unit:<10} "
            f"{number(ratios.summary(multiples).median)} ({spread(ratios.interval(multiples))}) "
            f"{row.bound.noun}, {row.bound.best}")


def beside_alternative(row, name, pairs):
    """Returns the line of a row in the table of alternatives; `pairs` are Ferroce's and theirs."""
    own, other = zip(*pairs, strict=True)
    ratio = ratios.ratio(other, own)
    return (f"{row.name:<{NAME_COLUMNS}} {number(ratios.summary(own).median) + ' ' + row.unit:<11} "
            f"{name:<10} {figures(other):<{FIGURE_COLUMNS}} "
            f"{number(ratio.of_pairs):<5} {spread(ratio.range):<12} "
            f"{verdict(ratio, row.less_is_better, (name, 'Ferroce'))}")


def missing(row, what, reason):
    """Returns the line of a row that could not be compared with something."""
    return f"{row.name:<{NAME_COLUMNS}} {what}: not measured: {reason}"
