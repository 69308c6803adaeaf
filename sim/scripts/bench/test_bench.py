"""What needs no build: `python3 -m unittest test_bench` in this folder."""

import random
import tempfile
import unittest
from pathlib import Path

import history
import page
import processes
import ratios
import rows
from builds import Build
from turns import take_turns

ROW = rows.Row("a row", "us", True)


class Ratios(unittest.TestCase):
    def test_a_summary_is_median_and_range(self):
        self.assertEqual(ratios.summary([3, 1, 2, 10]), ratios.Summary(2.5, 1, 10))

    def test_the_range_of_few_pairs_is_the_whole_one(self):
        self.assertEqual(ratios.coverage(6, 0), 1 - 2 / 64)
        self.assertEqual([ratios.left_out_of(n) for n in (1, 5, 8, 9, 11, 12)], [0, 0, 0, 1, 1, 2])

    def test_pairs_are_those_of_equal_places(self):
        # The machine becomes slower; each pair does so by the same factor.
        b = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
        found = ratios.ratio([x * 1.1 for x in b], b)
        self.assertAlmostEqual(found.of_pairs, 1.1)
        self.assertTrue(found.shows_difference())
        self.assertEqual(page.verdict(found, less_is_better=True), "B better")
        self.assertEqual(page.verdict(found, less_is_better=False), "A better")

    def test_one_outlier_of_nine_does_not_count(self):
        found = ratios.ratio([1.1] * 8 + [50.0], [1.0] * 9)
        self.assertAlmostEqual(found.range[1], 1.1)

    def test_a_range_with_1_shows_no_difference(self):
        found = ratios.ratio([1, 2, 3, 1, 2, 3], [2, 1, 3, 1, 1, 4])
        self.assertFalse(found.shows_difference())
        self.assertEqual(page.verdict(found, True), "no difference shown")

    def test_few_pairs_show_nothing(self):
        found = ratios.ratio([2] * 5, [1] * 5)
        self.assertEqual(page.verdict(found, True), "too few runs (5)")

    def test_equal_builds_differ_as_seldom_as_is_said(self):
        noise = random.Random(1)
        pairs, trials = 9, 2000
        draw = lambda: [noise.lognormvariate(0, 0.3) for _ in range(pairs)]  # noqa: E731
        wrong = sum(ratios.ratio(draw(), draw()).shows_difference() for _ in range(trials))
        said = 1 - ratios.coverage(pairs, ratios.left_out_of(pairs))
        self.assertAlmostEqual(wrong / trials, said, delta=0.015)


class Turns(unittest.TestCase):
    def test_they_alternate(self):
        order = []
        subjects = {name: lambda name=name: order.append(name) for name in "AB"}
        take_turns(subjects, 3)
        self.assertEqual("".join(order), "ABBAAB")

    def test_what_fails_is_not_tried_forever(self):
        tried = []

        def fails():
            tried.append(1)
            raise processes.Failed("missing")

        found = take_turns({"A": fails}, 9)
        self.assertEqual((len(tried), len(found["A"])), (2, 9))


class Builds(unittest.TestCase):
    def test_each_copy_is_a_file_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            build = Build("A", Path(folder), "aaa")
            (build.folder / "lib").mkdir()
            for name in ("ferroce", "lib/libibverbs.so.1"):
                (build.folder / name).write_text(name)
            (build.folder / "lib" / "libibverbs.so").symlink_to("libibverbs.so.1")
            with build.copied() as copy:
                library = copy.folder / "lib" / "libibverbs.so"
                self.assertEqual(Path(copy.ferroce).read_text(), "ferroce")
                self.assertEqual(library.read_text(), "lib/libibverbs.so.1")
                self.assertFalse(library.samefile(build.folder / "lib" / "libibverbs.so"))
            self.assertFalse(copy.folder.exists())

    def test_a_build_that_cannot_be_copied_is_named(self):
        build = Build("A", Path("/no/such/build"), "aaa")
        with self.assertRaisesRegex(processes.Failed, "no copy of /no/such/build in "):
            with build.copied():
                pass


class Programs(unittest.TestCase):
    def test_the_reason_of_a_failure_is_named(self):
        with self.assertRaisesRegex(processes.Failed, "sh: status 3: why"):
            processes.run(["sh", "-c", "echo why >&2; exit 3"])
        with self.assertRaisesRegex(processes.Failed, "not installed"):
            processes.run(["no-such-program"])

    def test_a_program_has_a_limit(self):
        with self.assertRaisesRegex(processes.Failed, "did not end within 1 s"):
            processes.run(["sleep", "30"], limit_s=1)

    def test_a_server_ends_with_its_block(self):
        with processes.server(["sh", "-c", "sleep 60 & wait"], lambda: True) as server:
            self.assertIsNone(server.poll())
        self.assertIsNotNone(server.poll())

    def test_programs_that_spin_end_with_their_block(self):
        with processes.spinning(2) as programs:
            self.assertEqual([program.poll() for program in programs], [None, None])
        for program in programs:
            self.assertIsNotNone(program.poll())


class Pages(unittest.TestCase):
    def test_numbers_have_three_digits(self):
        found = [page.number(value) for value in (0.71234, 12.345, 1907.2, 0.0213, 0)]
        self.assertEqual(found, ["0.712", "12.3", "1907", "0.0213", "0"])

    def test_rows_have_names_that_differ_and_fit(self):
        names = [row.name for experiment in rows.experiments() for row in experiment.rows]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(max(map(len, names)), page.NAME_COLUMNS)

    def test_the_history_has_ratios_only(self):
        builds = [Build("A", Path("/a"), "aaa"), Build("B", Path("/b"), "bbb")]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "history.csv"
            for _ in range(2):
                history.append(path, builds, [(ROW, ratios.ratio([2.0] * 6, [1.0] * 6))])
            lines = path.read_text().splitlines()
        self.assertEqual(lines[0].split(","), history.COLUMNS)
        self.assertEqual(len(lines), 3)
        self.assertIn(",aaa,bbb,a row,less,2.0000,2.0000,2.0000,2.0000,2.0000,2.0000,6,", lines[2])


if __name__ == "__main__":
    unittest.main()
