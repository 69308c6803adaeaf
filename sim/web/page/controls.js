// The values that can be moved, and their controls.
"use strict";

const powers = (first, last) =>
  Array.from({ length: last - first + 1 }, (_, index) => 2 ** (first + index));
const SIZES = powers(1, 23);

// Options of `ferroce perf` have a plain key, parameters of the preset one with a dot. `from` is the
// parameter that an option replaces; `usual` the option's default. A control of bandwidth tests has
// `bw`.
const CONTROLS = [
  {
    group: "Program",
    key: "qps",
    label: "Queue pairs",
    stops: powers(0, 9),
    usual: () => 1,
    bw: true,
  },
  {
    group: "Program",
    key: "depth",
    label: "Requests outstanding of each",
    stops: powers(0, 10),
    usual: () => 128,
    bw: true,
  },
  {
    group: "Program",
    key: "threads",
    label: "Threads",
    stops: powers(0, 4),
    usual: () => 1,
    bw: true,
  },
  { group: "Program", key: "mrs", label: "Memory regions", stops: powers(0, 12), usual: () => 1 },
  {
    group: "Program",
    key: "mtu",
    label: "MTU",
    unit: "bytes",
    stops: powers(8, 12),
    from: "transport.path_mtu_bytes",
  },
  {
    group: "Program",
    key: "outstanding-reads",
    label: "READs outstanding of each",
    stops: powers(0, 7),
    from: "transport.max_outstanding_reads",
  },
  {
    group: "Card",
    key: "units.count",
    label: "Processing units",
    stops: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32],
  },
  {
    group: "Card",
    key: "clock.core_mhz",
    label: "Core clock",
    stops: [100, 150, 200, 250, 300, 400, 500, 600, 800, 1000],
  },
  { group: "Card", key: "cache.qpc.log_sets", label: "QP context cache", cache: true },
  { group: "Card", key: "cache.mpt.log_sets", label: "Region cache (MPT)", cache: true },
  { group: "Card", key: "cache.mtt.log_sets", label: "Translation cache (MTT)", cache: true },
  {
    group: "PCIe and link",
    key: "pcie.generation",
    label: "PCIe generation",
    stops: [1, 2, 3, 4, 5, 6],
  },
  { group: "PCIe and link", key: "pcie.lanes", label: "PCIe lanes", stops: [1, 2, 4, 8, 16] },
  {
    group: "PCIe and link",
    key: "pcie.read_latency_ns",
    label: "Read latency",
    stops: [100, 200, 300, 400, 500, 600, 800, 1000, 1500, 2000],
  },
  { group: "PCIe and link", key: "pcie.read_tags", label: "Reads at once", stops: powers(3, 10) },
  {
    group: "PCIe and link",
    key: "mac.rate_gbps",
    label: "Link rate",
    stops: [10, 25, 40, 50, 56, 100, 200, 400, 800],
  },
  {
    group: "Host",
    key: "host.post_ns",
    label: "Cost of a post",
    stops: [0, 20, 40, 60, 80, 100, 150, 200, 300, 400, 600],
  },
];
const LOG_SETS = Array.from({ length: 15 }, (_, index) => index);

const isOption = (key) => !key.includes(".");

// The control of a parameter that has none: all its choices, or some steps around its value.
function otherControl(parameter) {
  if (parameter.choices)
    return { group: "Others", key: parameter.key, label: parameter.key, stops: parameter.choices };
  const value = Number(parameter.value);
  const factors = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10];
  const [low, high] = parameter.range;
  const whole = Number.isInteger(value) && Number.isInteger(low) && value >= 8;
  const steps =
    value === 0
      ? [0, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]
      : factors.map((factor) => factor * value);
  const stops = steps.map((step) =>
    whole || parameter.unit === "cycles" ? Math.round(step) : Number(step.toPrecision(4)),
  );
  return {
    group: "Others",
    key: parameter.key,
    label: parameter.key,
    stops: stops.filter((stop) => stop >= low && stop <= high),
  };
}

// The values that a control can take, with those of `more` among them.
function stopsOf(control, parameter, more) {
  let stops = control.cache ? LOG_SETS : control.stops;
  if (parameter?.choices) stops = stops.filter((stop) => parameter.choices.includes(stop));
  if (parameter?.range)
    stops = stops.filter((stop) => stop >= parameter.range[0] && stop <= parameter.range[1]);
  const all = [...new Set([...stops, ...more])];
  return all.every((stop) => typeof stop === "number")
    ? all.sort((one, other) => one - other)
    : all;
}
