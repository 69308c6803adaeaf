// Draws curves and measured points as SVG.
"use strict";

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

// A number with at most four digits after the first, as people write it.
function short(value) {
  if (value === 0) return "0";
  return String(Number(value.toPrecision(4)));
}

function bytesText(bytes) {
  const units = ["", "K", "M", "G"];
  let unit = 0;
  while (bytes >= 1024 && bytes % 1024 === 0) {
    bytes /= 1024;
    unit += 1;
  }
  return `${bytes}${units[unit]}`;
}

// Ticks of a linear axis from 0, at most `most`.
function linearTicks(high, most) {
  const rough = high / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  return Array.from({ length: Math.ceil(high / step - 1e-9) + 1 }, (_, index) => index * step);
}

// Ticks of a logarithmic axis: the powers of ten around the values, with 2 and 5 if there is room.
function logTicks(low, high) {
  const ticks = [];
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const factors = last - first <= 3 ? [1, 2, 5] : [1];
  for (let power = first; power <= last; power += 1) {
    for (const factor of factors) ticks.push(factor * 10 ** power);
  }
  const from = ticks.filter((tick) => tick <= low * 1.0001).length - 1;
  const to = ticks.findIndex((tick) => tick >= high * 0.9999);
  return ticks.slice(Math.max(from, 0), to < 0 ? ticks.length : to + 1);
}

// The stops that have a label: each one, or each second or later one that is free of the one before.
function labelled(stops, x) {
  const isFree = (one, other) =>
    Math.abs(x(other.x) - x(one.x)) > (one.text.length + other.text.length) * 3.5 + 6;
  for (let step = 1; step < stops.length; step += 1) {
    const some = stops.filter((_, index) => index % step === 0);
    if (some.every((stop, index) => index === 0 || isFree(some[index - 1], stop))) return some;
  }
  return stops.slice(0, 1);
}

// `plot` has `width`, `height`, `unit`, `log`, `axis` (label), `stops` (x values with their texts),
// `series` ({ name, kind: "line" | "dashed" | "points", color, points: [[x, y, title]] }) and the
// chosen x value `pick`.
function drawPlot(plot) {
  const box = { left: 52, right: 14, top: 34, bottom: 42 };
  const inner = {
    width: plot.width - box.left - box.right,
    height: plot.height - box.top - box.bottom,
  };
  const values = plot.series
    .flatMap((one) => one.points.map((point) => point[1]))
    .filter((y) => y > 0);
  const high = Math.max(...values, plot.log ? 0 : 1e-9);
  const ticks =
    values.length === 0
      ? [0, 1]
      : plot.log
        ? logTicks(Math.min(...values), high)
        : linearTicks(high, Math.round(inner.height / 55));
  const [bottom, top] = [ticks[0], ticks[ticks.length - 1]];
  const log = plot.log && bottom > 0;
  const y = (value) => {
    const share = log
      ? Math.log(value / bottom) / Math.log(top / bottom)
      : (value - bottom) / (top - bottom);
    return box.top + inner.height * (1 - share);
  };
  // Sizes and counts double from one to the next; values between two stand between them.
  const xs = plot.stops.map((stop) => stop.x);
  const [least, most] = [xs[0], xs[xs.length - 1]];
  const even = xs.some((value) => value <= 0);
  const x = (value) => {
    if (xs.length < 2) return box.left + inner.width / 2;
    const share = even
      ? (value - least) / (most - least)
      : Math.log(value / least) / Math.log(most / least);
    return box.left + 10 + (inner.width - 20) * share;
  };
  const parts = [`<rect class="paper" width="${plot.width}" height="${plot.height}"/>`];
  for (const tick of ticks) {
    parts.push(
      `<line class="grid" x1="${box.left}" x2="${plot.width - box.right}" y1="${y(tick)}" y2="${y(tick)}"/>`,
    );
    parts.push(
      `<text class="axis" x="${box.left - 6}" y="${y(tick) + 4}" text-anchor="end">${short(tick)}</text>`,
    );
  }
  for (const stop of labelled(plot.stops, x)) {
    parts.push(
      `<text class="axis" x="${x(stop.x)}" y="${plot.height - box.bottom + 17}" text-anchor="middle">${escaped(stop.text)}</text>`,
    );
  }
  parts.push(
    `<text class="note" x="${box.left + inner.width / 2}" y="${plot.height - 7}" text-anchor="middle">${escaped(plot.axis)}</text>`,
  );
  parts.push(`<text class="note" x="10" y="18">${escaped(plot.unit)}</text>`);
  if (plot.pick !== null) {
    parts.push(
      `<line class="pick" x1="${x(plot.pick)}" x2="${x(plot.pick)}" y1="${box.top}" y2="${box.top + inner.height}"/>`,
    );
  }
  for (const one of plot.series) {
    const inside = one.points.filter(([at, value]) => at >= least && at <= most && value > 0);
    if (one.kind !== "points") {
      const path = inside
        .map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`)
        .join(" ");
      parts.push(`<polyline class="line c${one.color} ${one.kind}" points="${path}"/>`);
    }
    if (one.kind === "dashed") continue;
    for (const [at, value, title] of inside) {
      const radius = one.kind === "points" ? 4 : 2.6;
      parts.push(
        `<circle class="dot c${one.color}" cx="${x(at).toFixed(1)}" cy="${y(value).toFixed(1)}" r="${radius}"/>`,
      );
      parts.push(
        `<circle class="hover" data-x="${at}" cx="${x(at).toFixed(1)}" cy="${y(value).toFixed(1)}" r="9"><title>${escaped(title)}</title></circle>`,
      );
    }
  }
  return `<svg class="plot" role="img" aria-label="${escaped(plot.title)}" viewBox="0 0 ${plot.width} ${plot.height}">${parts.join("")}</svg>`;
}
