"""Documents of the commands, with their data frames and plots."""


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


class Perf:
    """Measurements of `ferroce perf` or `ferroce perftest`; `document` is what the command wrote."""

    def __init__(self, document):
        self.document = document

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

    def frame(self):
        """Returns the rows as a pandas data frame."""
        return _pandas().DataFrame(self.rows())

    def plot(self, x="size", y=None, axes=None):
        """Plots a figure over the size or a swept parameter; returns the axes of matplotlib."""
        rows = list(self.rows())
        y = y or ("average_gbps" if "average_gbps" in rows[0] else "typical_us")
        axes = _axes(axes, x, y)
        axes.plot([row[x] for row in rows], [row[y] for row in rows], marker="o")
        return axes


class Comparison:
    """A measured table compared with the model."""

    def __init__(self, document):
        self.document = document

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


class Validation:
    """The model compared with measured targets."""

    def __init__(self, document):
        self.document = document

    @property
    def passed(self):
        """True if no prediction and no identity is missed."""
        return not self.document["summary"]["failures"]

    def frame(self):
        """Returns the targets as a pandas data frame."""
        return _pandas().json_normalize(self.document["targets"])


class Preset:
    """The parameters of a card and its surroundings."""

    def __init__(self, document):
        self.document = document

    def __getitem__(self, key):
        """Returns the value of a parameter: `preset("cx5-100g")["pcie.lanes"]`."""
        for parameter in self.document["parameters"]:
            if parameter["key"] == key:
                return parameter["value"]
        raise KeyError(key)

    def frame(self):
        """Returns the parameters with unit, origin and source as a pandas data frame."""
        return _pandas().DataFrame(self.document["parameters"])


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
