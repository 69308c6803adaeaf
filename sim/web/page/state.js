// The state of the page, which is the fragment of its address, and the requests that follow from it.
"use strict";

const $ = (id) => document.getElementById(id);
const show = (id, text) => {
  $(id).textContent = text;
};

const START = { test: "write_bw", preset: "cx6-200g@epyc-hdr", x: "size", size: 4096 };
let state;
let pool;
let catalogue;
// The chosen preset with the changes, and without.
let preset;
let unchanged;
let extra = [];
// The values of each control, so that they stay as they are while it is moved.
let stopsOfControl = new Map();
// The number of changes, and the last of them of which everything but the measurements is shown.
let updates = 0;
let shown = 0;

function read(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const pairs = (name) =>
    given.getAll(name).map((pair) => [pair.split("=")[0], pair.slice(pair.indexOf("=") + 1)]);
  const value = (text) => {
    if (text === "true" || text === "false") return text === "true";
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  };
  return {
    test: given.get("test") ?? START.test,
    preset: given.get("preset") ?? START.preset,
    x: given.get("x") ?? START.x,
    size: Number(given.get("size") ?? START.size),
    pick: given.has("pick") ? value(given.get("pick")) : null,
    show: given.get("show") ?? "",
    scale: given.get("scale") ?? "",
    table: given.get("table") ?? "",
    set: Object.fromEntries(pairs("set").map(([key, text]) => [key, value(text)])),
    options: Object.fromEntries(pairs("opt").map(([key, text]) => [key, value(text)])),
  };
}

function hash() {
  const plain = (text) =>
    encodeURIComponent(text).replace(/%(3D|40|2C|3A)/g, (code) => decodeURIComponent(code));
  const parts = [
    ["test", state.test],
    ["preset", state.preset],
    ["x", state.x],
    ["size", state.size],
  ];
  if (state.pick !== null && state.x !== "size") parts.push(["pick", state.pick]);
  for (const key of ["show", "scale", "table"]) if (state[key]) parts.push([key, state[key]]);
  for (const [key, value] of Object.entries(state.set)) parts.push(["set", `${key}=${value}`]);
  for (const [key, value] of Object.entries(state.options)) parts.push(["opt", `${key}=${value}`]);
  return `#${parts.map(([key, value]) => `${key}=${plain(value)}`).join("&")}`;
}

const isLatency = () => state.test.endsWith("_lat");
const isAtomic = () => state.test.startsWith("atomic");
const parameterOf = (one, key) => one.parameters.find((parameter) => parameter.key === key);
const controls = () => [...CONTROLS, ...extra].filter((control) => !(control.bw && isLatency()));

// The value of a control without and with the changes.
function ownValue(control) {
  if (!isOption(control.key)) return parameterOf(unchanged, control.key).value;
  return control.from ? parameterOf(preset, control.from).value : control.usual();
}

function presentValue(control) {
  const values = isOption(control.key) ? state.options : state.set;
  return values[control.key] ?? ownValue(control);
}

function stops(control) {
  const [own, present] = [ownValue(control), presentValue(control)];
  const name = `${state.preset} ${isLatency()} ${control.key}`;
  const known = stopsOfControl.get(name);
  if (known?.includes(own) && known.includes(present)) return known;
  const found = stopsOf(control, parameterOf(unchanged, control.key), [
    ...(known ?? []),
    own,
    present,
  ]);
  stopsOfControl.set(name, found);
  return found;
}

function change(key, value) {
  const control = controls().find((one) => one.key === key);
  const values = isOption(key) ? state.options : state.set;
  if (control && value === ownValue(control)) delete values[key];
  else values[key] = value;
}

// ---- Requests

// The longest messages of which one thread sends so many that the rate is steady. Of longer ones it
// is after a few, and each takes milliseconds.
const STEADY_SIZE = 128 * 1024;
const FEW = { atLeast: 8, ofOne: 200, ofSeveral: 200 };

const threads = () => (state.x === "threads" ? 16 : (state.options.threads ?? 1));
const steadySize = () => STEADY_SIZE / 2 ** Math.ceil(Math.log2(threads()));

// The number of messages of each queue pair.
function messages(bytes) {
  if (isLatency()) return "100";
  if (bytes <= steadySize()) return "auto";
  const qps = Math.max(state.x === "qps" ? FEW.ofSeveral : (state.options.qps ?? 1), threads());
  if (qps === 1) return String(FEW.ofOne);
  return String(Math.max(FEW.atLeast, Math.ceil(FEW.ofSeveral / qps)));
}

// What every request has. `without` is the swept key, which has no value of its own then.
function base(bytes, without, changed = true) {
  const set = changed ? Object.entries(state.set).filter(([key]) => key !== without) : [];
  const options = { ...state.options };
  delete options[without];
  if (isLatency()) for (const control of CONTROLS) if (control.bw) delete options[control.key];
  return {
    test: state.test,
    preset: state.preset,
    set: set.map(([key, value]) => `${key}=${value}`),
    options: { iterations: messages(bytes), "fast-forward": true, ...options },
  };
}

// The places on the x axis: value and text.
function places() {
  if (state.x === "size") {
    const last = state.options.connection === "UD" ? preset.mtu : SIZES[SIZES.length - 1];
    const sizes = isAtomic() ? [8] : SIZES.filter((size) => size <= last);
    return sizes.map((size) => ({ x: size, text: bytesText(size) }));
  }
  const control = controls().find((one) => one.key === state.x);
  return stops(control).map((stop) => ({ x: stop, text: valueText(control, stop) }));
}

function pointRequest(place, changed = true) {
  if (state.x === "size") {
    return { ask: "point", ...base(place, null, changed), all: !isAtomic(), size: place };
  }
  return {
    ask: "point",
    ...base(size(), state.x, changed),
    size: size(),
    point: [state.x, String(place)],
  };
}

// The request of the curve, or of its part of long messages.
function curveRequest(ask, isLong = false) {
  if (state.x === "size") {
    return { ask, ...base(isLong ? Infinity : 0, null), all: !isAtomic() };
  }
  const values = places().map((place) => String(place.x));
  return { ask, ...base(size(), state.x), size: size(), sweep: { key: state.x, values } };
}

// True if short and long messages of the curve have different commands.
const hasLongPart = () =>
  state.x === "size" && !isLatency() && places().some((place) => place.x > steadySize());

// One message at the chosen place.
function explanationRequest(ask) {
  const request = { ask, ...base(size(), null), size: size() };
  delete request.options.iterations;
  delete request.options["fast-forward"];
  if (state.x !== "size" && isOption(state.x)) request.options[state.x] = picked();
  if (state.x !== "size" && !isOption(state.x)) request.set.push(`${state.x}=${picked()}`);
  for (const key of ["qps", "threads", "mrs"]) delete request.options[key];
  return request;
}

const size = () => (isAtomic() ? 8 : state.size);

// The chosen place on the x axis.
function picked() {
  const all = places().map((place) => place.x);
  const wanted =
    state.x === "size"
      ? size()
      : (state.pick ?? presentValue(controls().find((one) => one.key === state.x)));
  return all.includes(wanted) ? wanted : all[0];
}

// Every fourth place first, so that the shape of the curve is soon there.
function coarseFirst(all) {
  const order = [4, 2, 1].flatMap((step) => all.filter((_, index) => index % step === 0));
  return [...new Set(order)];
}

function wanted() {
  const at = places().map((place) => place.x);
  const order = [picked(), ...coarseFirst(at)];
  const texts = [...new Set(order)].map((place) => pointRequest(place));
  texts.splice(1, 0, explanationRequest("explanation"));
  if (Object.keys(state.set).length > 0 && !(state.x in state.set)) {
    texts.push(...coarseFirst(at).map((place) => pointRequest(place, false)));
  }
  return texts.map((request) => JSON.stringify(request));
}
