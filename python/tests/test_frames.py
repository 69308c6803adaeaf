"""Data frames, plots and the notebook; needs pandas and matplotlib (`make python-test`)."""

import json
import unittest
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import ferroce  # noqa: E402  (the backend is chosen first)

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "connectx.ipynb"


class Frames(unittest.TestCase):
    def test_a_frame_has_the_rows(self):
        measured = ferroce.perf("write_lat", "cx5-100g", size=64, iterations=100)
        frame = measured.frame()
        self.assertEqual(list(frame["size"]), [64])
        self.assertGreater(frame["typical_us"][0], 0)
        self.assertEqual(measured.plot().get_ylabel(), "typical_us")

    def test_the_targets_are_a_frame(self):
        validation = ferroce.validate(only="V17")
        self.assertTrue(validation.passed)
        self.assertIn("id", validation.frame())

    def test_the_notebook_runs(self):
        names = {}
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)  # noqa: S102 (our own notebook)
        self.assertEqual(len(names["comparisons"]), 2)
        self.assertFalse(names["card"].frame().empty)


if __name__ == "__main__":
    unittest.main()
