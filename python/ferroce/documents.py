"""Documents of the commands, with their data frames and plots."""

import html

#: Rows of a table in a notebook; a preset has hundreds of parameters.
TABLE_ROWS = 60


def _pandas():
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas: pip install 'ferroce[frames]'") from error
    return pandas


def _axes(axes, x, y):
    """Labels `axes`, or new ones, and returns them; the x axis has powers of two."""
    axes = axes if axes is not None else _new_axes()
    axes.set_xscale("log", base=2)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return axes


def _new_axes():
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'ferroce[frames]'") from error
    return pyplot.subplots()[1]


class _Document:
    """What a command wrote: `document`. A subclass has rows(), _summary() and _columns()."""

    def __init__(self, document):
        self.document = document

    def __repr__(self):
        return f"<ferroce.{type(self).__name__}: {self._summary()}>"

    def _repr_html_(self):
        """Returns the table that a notebook shows."""
        rows, columns = list(self.rows()), self._columns()
        lines = [columns, *([row.get(column) for column in columns] for row in rows[:TABLE_ROWS])]
        kinds = ["th"] + ["td"] * len(rows)
        cells = "\n".join(
            "<tr>" + "".join(f"<{kind}>{_cell(value)}</{kind}>" for value in line) + "</tr>"
            for kind, line in zip(kinds, lines)
        )
        more = f"<p>{len(rows) - TABLE_ROWS} more rows</p>" if len(rows) > TABLE_ROWS else ""
        return f"<table>\n<caption>{_cell(self._summary())}</caption>\n{cells}\n</table>{more}"


class Perf(_Document):
    """Measurements of `ferroce perf` or `ferroce perftest`."""

    def __len__(self):
        return len(self.document["rows"])

    def rows(self):
        """Yields a flat dictionary for each row: swept values, size, figures, bottleneck."""
        for row in self.document["rows"]:
            specification, result = row["specification"], row["result"]
            flat = {key: _number(value) for key, value in row["point"].items()}
            flat["size"] = specification["size"]
            flat["operation"] = specification["operation"]
            flat["service"] = specification["service"]
            flat["preset"] = row["preset"]["name"]
            flat.update(result["bandwidth"] or {})
            latency = dict(result["latency"] or {})
            latency.pop("round_trips_ps", None)
            flat.update(latency)
            limit = row["bottleneck"] or {}
            flat["bottleneck"] = limit.get("text")
            yield flat

    def _summary(self):
        """Returns test, presets, sizes and the best figure in one line."""
        rows = list(self.rows())
        if not rows:
            return "no rows"
        test, figure, best, unit = (
            ("bandwidth", "average_gbps", max, "Gb/s") if self._is_of_bandwidth()
            else ("latency", "typical_us", min, "us")
        )
        service, operation, preset = (
            "/".join(dict.fromkeys(row[key] for row in rows))
            for key in ("service", "operation", "preset")
        )
        figures = [row[figure] for row in rows if row.get(figure) is not None]
        found = f"best {best(figures):.4g} {unit}" if figures else f"no {figure}"
        sizes = _range([row["size"] for row in rows])
        return f"{service} {operation} {test} on {preset}, {sizes}, {found}"

    def _columns(self):
        """Returns the columns of the table: swept parameters, size, figures, bottleneck."""
        swept = dict.fromkeys(key for row in self.document["rows"] for key in row["point"])
        bandwidth = ["average_gbps", "message_rate_mpps"]
        figures = bandwidth if self._is_of_bandwidth() else ["typical_us", "p99_us"]
        return list(dict.fromkeys([*swept, "size", *figures, "bottleneck"]))

    def _is_of_bandwidth(self):
        return any(row["result"]["bandwidth"] for row in self.document["rows"])

    def frame(self):
        """Returns the rows as a pandas data frame."""
        return _pandas().DataFrame(self.rows())

    def plot(self, x="size", y=None, axes=None):
        """Plots a figure over the size or a swept parameter; returns the axes of matplotlib."""
        rows = list(self.rows())
        y = y or ("average_gbps" if self._is_of_bandwidth() else "typical_us")
        axes = _axes(axes, x, y)
        axes.plot([row[x] for row in rows], [row[y] for row in rows], marker="o")
        return axes


class Comparison(_Document):
    """A measured table compared with the model."""

    @property
    def table(self):
        """Name of the measured table."""
        return self.document["table"]

    @property
    def median_percent(self):
        """Median of the magnitudes of the errors."""
        return self.document["error_median_percent"]

    def rows(self):
        """Yields a dictionary for each size: bytes, measured, model, error_percent, class."""
        for size in self.document["sizes"]:
            unit = "us" if "measured_us" in size else "gbps"
            yield {
                "bytes": size["bytes"],
                "measured": size[f"measured_{unit}"],
                "model": size[f"model_{unit}"],
                "unit": unit,
                "error_percent": size["error_percent"],
                "class": size["class"],
            }

    def _summary(self):
        """Returns table, preset, sizes and the median of the errors in one line."""
        sizes = _range([size["bytes"] for size in self.document["sizes"]])
        median = self.median_percent
        error = "no error" if median is None else f"median error {median:.1f} %"
        return f"{self.table} on {self.document['preset']}, {sizes}, {error}"

    def _columns(self):
        """Returns the columns of the table."""
        return ["bytes", "measured", "model", "unit", "error_percent", "class"]

    def frame(self):
        """Returns the sizes as a pandas data frame."""
        return _pandas().DataFrame(self.rows())

    def plot(self, axes=None):
        """Plots measurement and model; returns the axes of matplotlib."""
        rows = list(self.rows())
        axes = _axes(axes, "bytes", rows[0]["unit"])
        sizes = [row["bytes"] for row in rows]
        axes.plot(sizes, [row["measured"] for row in rows], marker="o", label="measured")
        axes.plot(sizes, [row["model"] for row in rows], marker="x", label="model")
        axes.set_title(f"{self.table} on {self.document['preset']}")
        axes.legend()
        return axes


class Validation(_Document):
    """The model compared with measured targets."""

    @property
    def passed(self):
        """True if no prediction and no identity is missed."""
        return not self.document["summary"]["failures"]

    def rows(self):
        """Returns the targets."""
        return self.document["targets"]

    def _summary(self):
        """Returns the counts of targets in one line."""
        bases = self.document["summary"]["by_basis"].values()
        counts = [f"{sum(basis[key] for basis in bases)} {key}"
                  for key in ("targets", "passed", "excused", "missed")]
        return ", ".join(counts)

    def _columns(self):
        """Returns the columns of the table."""
        return ["id", "about", "preset", "metric", "target", "unit", "verdict"]

    def frame(self):
        """Returns the targets as a pandas data frame."""
        return _pandas().json_normalize(self.document["targets"])


class Preset(_Document):
    """The parameters of a card and its surroundings."""

    def __getitem__(self, key):
        """Returns the value of a parameter: `preset("cx5-100g")["pcie.lanes"]`."""
        for parameter in self.document["parameters"]:
            if parameter["key"] == key:
                return parameter["value"]
        raise KeyError(key)

    def rows(self):
        """Returns the parameters with unit, origin and source."""
        return self.document["parameters"]

    def _summary(self):
        """Returns name, number of parameters and description in one line."""
        count = len(self.document["parameters"])
        return f"{self.document['name']}, {count} parameters, {self.document['about']}"

    def _columns(self):
        """Returns the columns of the table."""
        return ["key", "value", "unit", "origin", "source"]

    def frame(self):
        """Returns the parameters with unit, origin and source as a pandas data frame."""
        return _pandas().DataFrame(self.document["parameters"])


def _range(sizes):
    """Returns the sizes as a text: one, or the smallest and the largest."""
    least, most = min(sizes, default=0), max(sizes, default=0)
    return f"{least} bytes" if least == most else f"{least} to {most} bytes"


def _cell(value):
    """Returns a value as the text of a cell in HTML."""
    if value is None:
        return ""
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))


def _number(text):
    """Returns a swept value as a number, if it is one: sizes may end in K or M."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    factor = units.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    for kind in (int, float):
        try:
            return kind(digits) * factor
        except ValueError:
            continue
    return text
