"""The --json output of every command matches its schema, and the package reads it."""

import copy
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import jsonschema

import ferroce
from ferroce.command import SCHEMA
from ferroce.documents import TABLE_ROWS

#: Commands with a schema, and arguments that show their keys.
COMMANDS = {
    "perf": [
        "write_bw --preset cx5-100g --sweep size=64,4K -n 200",
        "write_lat --preset cx5-100g -s 64 --explain",
        "read_bw --preset cx5-100g -s 64 -n 100 --counters",
        "write_bw --preset functional -s 64 -n 50",
        "write_bw --preset fpga-100g -s 4K -n 20 --sensitivity",
    ],
    "perftest": ["write_bw --preset cx5-100g -s 64 -n 200"],
    "compare": ["--list", "cx3-40g@xeon-qdr cx3_qdr40_ib_write_lat"],
    "validate": ["--only V17"],
    "selftest": ["", "--stage dma"],
    "devices": [""],
    "preset list": [""],
    "preset show": ["cx5-100g", "irdma-10g pcie"],
    "preset diff": ["cx5-100g cx6-200g", "cx5-100g cx5-100g"],
    "sim": ["--seed 1", "--seeds 3"],
    "wire check": ["capture.pcapng"],
    "reg list": [""],
    "reg get": ["status", "ROCE_ACCL.roce_adp_retrans_en"],
    "reg dump": ["", "--all"],
    "reg watch": ["status --count 1"],
    "trace show": ["a.rec", "a.rec --kind doorbell"],
    "trace diff": ["a.rec b.rec", "a.rec b.rec --strict all --without dma"],
}

#: Commands that print nothing without a running program.
OF_RUNNING_PROGRAMS = ["cm", "counters"]

#: Commands with --shard, all of which write documents of one schema.
SHARDS = [
    "perf write_bw --preset cx5-100g --sweep size=64,4K -n 200",
    "validate --only V17",
    "sim --seeds 4",
]

#: Longest time of one command.
TIMEOUT_S = 300


def checked(command, line):
    """Runs a command and checks its document; a difference (1) is no failure."""
    document = ferroce.run(*command.split(), *line.split(), accept=(0, 1), timeout_s=TIMEOUT_S)
    schema = ferroce.schema(*command.split())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    return document


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = os.getcwd()
        os.chdir(cls.folder.name)
        for record in ("a.rec", "b.rec"):
            ferroce.run("selftest", "--record", record, "--stage", "dma", timeout_s=TIMEOUT_S)
        words = ["perf", "write_bw", "--preset", "cx5-100g", "-s", "64", "-n", "50"]
        ferroce.run(*words, "--pcap", "capture.pcapng", timeout_s=TIMEOUT_S)

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.home)
        cls.folder.cleanup()

    def test_every_command_keeps_its_schema(self):
        for command, lines in COMMANDS.items():
            for line in lines:
                with self.subTest(command=command, line=line):
                    document = checked(command, line)
                    self.assertEqual(document["program"], f"ferroce {command}")
                    self.assertEqual(document["schema"], SCHEMA)

    def test_every_schema_is_tried(self):
        listed = subprocess.run(
            [ferroce.command.binary(), "schema"], capture_output=True, text=True, check=True
        )
        self.assertEqual(
            sorted(listed.stdout.splitlines()),
            sorted([*COMMANDS, *OF_RUNNING_PROGRAMS, "shard"]),
        )

    def test_shards_keep_their_schema(self):
        schema = ferroce.schema("shard")
        jsonschema.Draft202012Validator.check_schema(schema)
        for line in SHARDS:
            with self.subTest(line=line):
                words = [ferroce.command.binary(), *line.split(), "--shard", "1/2"]
                done = subprocess.run(
                    words, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
                )
                document = json.loads(done.stdout)
                jsonschema.Draft202012Validator(schema).validate(document)
                self.assertEqual(document["schema"], SCHEMA)

    def test_a_file_and_the_text(self):
        done = subprocess.run(
            [ferroce.command.binary(), "preset", "list", "--json", "list.json"],
            capture_output=True, text=True, check=True,
        )
        self.assertIn("host profiles", done.stdout)
        document = json.loads(Path("list.json").read_text())
        self.assertIn("cx5-100g", [preset["name"] for preset in document["presets"]])

    def test_a_file_that_cannot_be_written_is_refused_first(self):
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            subprocess.run(
                [ferroce.command.binary(), "validate", "--json", "/no/such/folder/x"],
                capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
            )
        self.assertIn("/no/such/folder/x", refused.exception.stderr)

    @unittest.skipUnless(shutil.which("ibv_devinfo"), "needs ibverbs-utils")
    def test_counters_after_the_end_of_a_program(self):
        subprocess.run(
            [ferroce.command.binary(), "run", "--counters-on-exit", "exit.json", "--",
             "ibv_devinfo"],
            capture_output=True, check=True, timeout=TIMEOUT_S,
        )
        document = json.loads(Path("exit.json").read_text())
        jsonschema.Draft202012Validator(ferroce.schema("counters")).validate(document)
        (function,) = document["functions"]
        self.assertEqual(function["program"], "ibv_devinfo")
        self.assertGreater(function["counters"]["commands"], 0)


class Package(unittest.TestCase):
    def test_a_sweep_has_a_row_for_each_combination(self):
        sweep = ferroce.sweep("write_bw", "cx5-100g", size=["64", "4K"], qps=[1, 2])
        rows = list(sweep.rows())
        self.assertEqual([(row["size"], row["qps"]) for row in rows],
                         [(64, 1), (64, 2), (4096, 1), (4096, 2)])
        self.assertTrue(all(row["average_gbps"] > 0 for row in rows))
        self.assertTrue(all(row["bottleneck"] for row in rows))

    def test_a_comparison_has_the_errors(self):
        (comparison,) = ferroce.compare("cx3-40g@xeon-qdr", "cx3_qdr40_ib_write_lat")
        rows = list(comparison.rows())
        self.assertEqual(comparison.table, "cx3_qdr40_ib_write_lat")
        for row in rows:
            expected = (row["model"] / row["measured"] - 1) * 100
            self.assertAlmostEqual(row["error_percent"], expected, delta=0.1)

    def test_a_parameter_is_found_by_its_name(self):
        self.assertEqual(ferroce.preset("cx5-100g")["pcie.lanes"], 16)
        with self.assertRaises(KeyError):
            ferroce.preset("cx5-100g")["pcie.wheels"]

    def test_a_repr_has_the_best_figure(self):
        sweep = ferroce.sweep("write_bw", "cx5-100g", size=["4K", "64"])
        best = max(row["average_gbps"] for row in sweep.rows())
        self.assertEqual(
            repr(sweep),
            "<ferroce.Perf: RC write bandwidth on cx5-100g, 64 to 4096 bytes, "
            f"best {best:.4g} Gb/s>",
        )
        sweep = ferroce.sweep("write_lat", "cx5-100g", size=["64", "4K"])
        least = next(sweep.rows())["typical_us"]
        self.assertIn(f"latency on cx5-100g, 64 to 4096 bytes, best {least:.4g} us", repr(sweep))
        self.assertEqual(repr(ferroce.Perf({"rows": []})), "<ferroce.Perf: no rows>")

    def test_every_document_has_a_line_and_a_table(self):
        (comparison,) = ferroce.compare("cx3-40g@xeon-qdr", "cx3_qdr40_ib_write_lat")
        line = "cx3_qdr40_ib_write_lat on cx3-40g@xeon-qdr, 2 to 8388608 bytes"
        median = f"median error {comparison.median_percent:.1f} %"
        for document, words in [
            (comparison, [line, median]),
            (ferroce.validate(only="V17"), ["3 targets, 3 passed, 0 excused, 0 missed"]),
            (ferroce.preset("irdma-10g"), ["irdma-10g", "parameters"]),
        ]:
            with self.subTest(document=document):
                self.assertNotIn("\n", repr(document))
                table = document._repr_html_()
                rows = list(document.rows())
                shown = min(len(rows), TABLE_ROWS)
                self.assertEqual(table.count("<tr><td>"), shown)
                more = f"<p>{len(rows) - shown} more rows</p>"
                self.assertEqual(more in table, len(rows) > shown)
                for word in words:
                    self.assertIn(word, repr(document))
                    self.assertIn(word, table)

    def test_a_table_has_swept_parameters_and_no_markup_of_its_values(self):
        sweep = ferroce.sweep("write_bw", "cx5-100g", size="64", qps=[1, 2])
        document = copy.deepcopy(sweep.document)
        document["rows"][0]["preset"]["name"] = "<script>"
        document["rows"][0]["bottleneck"]["text"] = "a & b"
        table = ferroce.Perf(document)._repr_html_()
        self.assertIn("<tr><th>size</th><th>qps</th><th>average_gbps</th>", table)
        self.assertIn("<tr><td>64</td><td>2</td>", table)
        self.assertIn("&lt;script&gt;", table)
        self.assertIn("<td>a &amp; b</td>", table)
        self.assertNotIn("<script>", table)

    def test_what_is_wrong_is_said_by_the_command(self):
        with self.assertRaisesRegex(ferroce.CommandError, "cx9-800g"):
            ferroce.perf("write_bw", "cx9-800g")


if __name__ == "__main__":
    unittest.main()
