// What the page shows of the answers.
"use strict";

// The answer to a request with its document, once there is one.
function answerOf(request) {
  const answer = pool.answers.get(JSON.stringify(request));
  if (answer && answer.document && !answer.parsed) answer.parsed = JSON.parse(answer.document);
  return answer;
}

const FIGURES = {
  gbps: {
    unit: "Gb/s",
    row: (result) => result.bandwidth.average_gbps,
    measured: (point) => point.average_gbps,
  },
  rate: {
    unit: "M messages/s",
    row: (result) => result.bandwidth.message_rate_mpps,
    measured: (point) => point.message_rate_mpps,
  },
  latency: {
    unit: "us, typical",
    row: (result) => result.latency.typical_us,
    measured: (point) => point.typical_us,
  },
};
const figure = () => FIGURES[isLatency() ? "latency" : state.show === "rate" ? "rate" : "gbps"];
const isLog = () => (state.scale ? state.scale === "log" : isLatency() && state.x === "size");

function rowAt(place, changed) {
  const answer = answerOf(pointRequest(place, changed));
  return answer && answer.parsed ? answer.parsed.rows[0] : null;
}

function curve(changed) {
  return places().flatMap((place) => {
    const row = rowAt(place.x, changed);
    if (!row) return [];
    const value = figure().row(row.result);
    return [[place.x, value, `${place.text}: ${value} ${figure().unit}`]];
  });
}

// The measured table beside the curve.
function table() {
  if (state.x !== "size" || state.table === "none") return null;
  const same = catalogue.tables.filter((one) => one.test === state.test);
  const card = (name) => name.split("@")[0];
  return (
    same.find((one) => one.name === state.table) ??
    same.find((one) => one.preset === state.preset) ??
    same.find((one) => card(one.preset) === card(state.preset))
  );
}

const isRepeated = (one) =>
  one.preset === state.preset &&
  Object.keys(state.set).every((key) => one.set.includes(`${key}=${state.set[key]}`)) &&
  one.set.length === Object.keys(state.set).length &&
  JSON.stringify(one.options) === JSON.stringify(state.options);

function measuredAt(place) {
  const point = table()?.points.find((one) => one.bytes === place);
  return point ? figure().measured(point) : null;
}

function render() {
  const found = places().map((place) => answerOf(pointRequest(place.x)));
  const failed = found.find((answer) => answer?.error);
  $("error").hidden = !failed;
  if (failed) show("error", failed.error);
  const times = found.filter((answer) => answer?.parsed).map((answer) => answer.ms);
  const open = pool.open();
  const mean = times.length ? times.reduce((sum, ms) => sum + ms, 0) / times.length : 0;
  show(
    "status",
    open > 0
      ? `${open} measurements are running`
      : `${times.length} points, ${Math.round(mean)} ms each`,
  );
  renderPlot();
  renderBars();
  renderExplanation();
  renderTable();
}

function renderPlot() {
  const isNarrow = $("plot").clientWidth < 560;
  const series = [];
  const before = Object.keys(state.set).length > 0 ? curve(false) : [];
  if (before.length)
    series.push({ name: "the preset as it is", kind: "dashed", color: 5, points: before });
  series.push({ name: "the model", kind: "line", color: 0, points: curve(true) });
  const measured = table();
  if (measured) {
    const points = measured.points.map((point) => {
      const value = figure().measured(point);
      return [
        point.bytes,
        value,
        `measured, ${bytesText(point.bytes)}: ${short(value)} ${figure().unit}`,
      ];
    });
    series.push({ name: "measured", kind: "points", color: 1, points });
  }
  $("plot").innerHTML = drawPlot({
    width: isNarrow ? 370 : 760,
    height: isNarrow ? 280 : 380,
    unit: figure().unit,
    log: isLog(),
    axis: axisName(),
    stops: places(),
    pick: picked(),
    series,
    title: `${state.test} of ${state.preset}: ${figure().unit} against ${axisName()}`,
  });
  const keys = series.map(
    (one) =>
      `<li><svg class="plot" viewBox="0 0 24 12" aria-hidden="true">${
        one.kind === "points"
          ? `<circle class="dot c${one.color}" cx="12" cy="6" r="4"/>`
          : `<path class="line c${one.color} ${one.kind}" d="M1 6h22"/>`
      }</svg>${escaped(one.name)}</li>`,
  );
  $("keys").innerHTML = keys.join("");
  show(
    "about-table",
    measured ? `${measured.nic ?? measured.name}: ${measured.command ?? ""}` : "",
  );
  $("repeat").hidden = !measured || isRepeated(measured);
}

function axisName() {
  if (state.x === "size") return "message size [bytes]";
  const control = controls().find((one) => one.key === state.x);
  return unitOf(control) ? `${control.label} [${unitOf(control)}]` : control.label;
}

// A bar: where it begins, and how long it is.
function bar(label, text, [from, share], kind, title = "") {
  const style = `--from:${(from * 100).toFixed(2)}%;--share:${(share * 100).toFixed(2)}%`;
  return `<li class="${kind}" title="${escaped(title)}"><span>${escaped(label)}</span><i style="${style}"></i><b>${escaped(text)}</b></li>`;
}

function renderBars() {
  const answer = answerOf(pointRequest(picked()));
  const row = answer?.parsed?.rows[0];
  const place = places().find((one) => one.x === picked());
  show("pick", `${state.x === "size" ? "message size" : axisName()} ${place.text}`);
  show("bottleneck", row?.bottleneck?.text ?? (row ? "nothing takes time in this preset" : ""));
  const limit = row?.bottleneck;
  const isLimit = (part) =>
    limit?.limit === "part" &&
    part.host === limit.host &&
    part.part === limit.part &&
    part.unit === limit.unit;
  const parts = (row?.utilisation ?? []).map((part, index) => ({
    ...part,
    label: answer.labels[index],
  }));
  parts.sort((one, other) => other.share - one.share);
  const line = (part) =>
    bar(
      part.label,
      `${(part.share * 100).toFixed(1)} %`,
      [0, part.share],
      isLimit(part) ? "limit" : part.kind,
    );
  $("bars").innerHTML = parts.slice(0, 10).map(line).join("");
  $("more-bars").innerHTML = parts.slice(10).map(line).join("");
  $("more").hidden = parts.length <= 10;
}

function renderExplanation() {
  const answer = answerOf(explanationRequest("explanation"));
  const found = answer?.parsed?.explanation;
  show("total", found ? `${short(found.total_ps / 1000)} ns` : (answer?.error ?? ""));
  $("explanation").innerHTML = (found?.parts ?? [])
    .map((part) => {
      const times = part.count > 1 ? ` (${part.count} times)` : "";
      const span = [part.start_ps / found.total_ps, part.time_ps / found.total_ps];
      const text = `${(part.time_ps / 1000).toFixed(1)} ns`;
      return bar(
        `${part.what}${times}`,
        text,
        span,
        `host${part.host % 2}`,
        `host ${part.host}; bound by: ${part.bound_by}`,
      );
    })
    .join("");
}

function renderTable() {
  const lines = places().map((place) => {
    const row = rowAt(place.x);
    const value = row ? figure().row(row.result) : null;
    const measured = measuredAt(place.x);
    const error =
      value !== null && measured ? `${(100 * (value / measured - 1)).toFixed(1)} %` : "";
    const cells = [value ?? "", measured === null ? "" : short(measured), error];
    const numbers = cells.map((cell) => `<td class="number">${cell}</td>`).join("");
    return `<tr${place.x === picked() ? ' class="picked"' : ""}><th scope="row">${place.text}</th>${numbers}<td>${escaped(row?.bottleneck?.text ?? "")}</td></tr>`;
  });
  $("rows").innerHTML = lines.join("");
  show("x-name", axisName());
  show("y-name", figure().unit);
}

async function renderCommand(isLast) {
  const [found, long, alone] = await Promise.all([
    pool.ask(curveRequest("command")),
    pool.ask(curveRequest("command", true)),
    pool.ask(explanationRequest("command")),
  ]);
  if (!isLast()) return;
  show("command", found.command ?? found.error);
  show("short-size", bytesText(steadySize()));
  for (const id of ["short-part", "long-part"]) $(id).hidden = !hasLongPart();
  show("long-command", long.command ?? "");
  show("explain-command", alone.command ? `${alone.command} --explain` : "");
  show("toml", found.toml ?? "");
  show("toml-command", found.toml_command ?? "");
  show("hash-of", preset.hash);
}
