// The controls of the page, and what a change does.
"use strict";

const unitOf = (control) =>
  control.unit ?? (control.cache ? "entries" : (parameterOf(preset, control.key)?.unit ?? ""));

function valueText(control, value) {
  if (!control.cache) return control.unit === "bytes" ? bytesText(value) : String(value);
  const ways = parameterOf(preset, control.key.replace("log_sets", "ways")).value;
  return bytesText(ways * 2 ** value);
}

function sliderOf(control) {
  const id = `slide-${control.key}`;
  const about = parameterOf(preset, control.key)?.about ?? "";
  return `<div class="control" data-key="${control.key}" title="${escaped(about)}">
    <label for="${id}">${escaped(control.label)}</label><output for="${id}"></output>
    <input type="range" id="${id}" min="0" max="${stops(control).length - 1}" step="1">
    <button type="button" class="reset">↺</button></div>`;
}

// Sets a slider to its value.
function setSlider(control) {
  const element = document.querySelector(`[data-key="${control.key}"]`);
  const [own, present] = [ownValue(control), presentValue(control)];
  const text = `${valueText(control, present)} ${unitOf(control)}`.trim();
  const back = `${control.label}: back to ${valueText(control, own)}`;
  element.classList.toggle("changed", present !== own);
  element.querySelector("output").textContent = text;
  const slider = element.querySelector("input");
  slider.value = stops(control).indexOf(present);
  slider.setAttribute("aria-valuetext", text);
  const button = element.querySelector("button");
  button.disabled = present === own;
  button.title = back;
  button.setAttribute("aria-label", back);
}

function renderSliders() {
  const all = controls();
  const shape = JSON.stringify(all.map((control) => [control.key, stops(control).length]));
  if ($("sliders").dataset.shape !== shape) {
    const groups = [...new Set(all.map((control) => control.group))];
    $("sliders").innerHTML = groups
      .map((group) => {
        const own = all.filter((control) => control.group === group);
        return `<fieldset><legend>${group}</legend>${own.map(sliderOf).join("")}</fieldset>`;
      })
      .join("");
    $("sliders").dataset.shape = shape;
  }
  all.forEach(setSlider);
}

function renderControls() {
  renderSliders();
  const axes = [
    ["size", "message size"],
    ...controls()
      .filter((one) => (one.stops ?? LOG_SETS).length > 1)
      .map((one) => [one.key, one.label.toLowerCase()]),
  ];
  fill("x", axes, state.x);
  const memories = [["", "near the card"], ...preset.memories.map((name) => [name, name])];
  fill("memory", memories, state.options.memory ?? "");
  fill("remote-memory", memories, state.options["remote-memory"] ?? "");
  for (const id of ["memory", "remote-memory"])
    $(id).closest("label").hidden = preset.memories.length === 0;
  fill(
    "connection",
    [
      ["RC", "RC"],
      ["UC", "UC"],
      ["UD", "UD"],
    ],
    state.options.connection ?? "RC",
  );
  $("bidirectional").checked = state.options.bidirectional === true;
  $("parameters").innerHTML = preset.parameters
    .map((one) => `<option value="${one.key}">${escaped(one.about)}</option>`)
    .join("");
  show(
    "about-card",
    catalogue.presets.find((one) => one.name === state.preset.split("@")[0])?.about ?? "",
  );
  const [, ...hosts] = state.preset.split("@");
  show(
    "about-host",
    hosts.map((host) => catalogue.hosts.find((one) => one.name === host)?.about).join("; "),
  );
}

function fill(id, choices, value) {
  const all = choices.some(([name]) => name === value) ? choices : [...choices, [value, value]];
  $(id).innerHTML = all
    .map(
      ([name, text]) =>
        `<option value="${escaped(name)}"${name === value ? " selected" : ""}>${escaped(text)}</option>`,
    )
    .join("");
}

function renderChoices() {
  fill(
    "test",
    catalogue.tests.map((name) => [name, name]),
    state.test,
  );
  const [card, ...hosts] = state.preset.split("@");
  fill(
    "card",
    catalogue.presets.map((one) => [one.name, one.name]),
    card,
  );
  // Some tables were measured in a machine with two profiles.
  const pairs = catalogue.tables
    .map((one) => one.preset.split("@").slice(1).join("@"))
    .filter((name) => name.includes("@"));
  const names = ["", ...catalogue.hosts.map((one) => one.name), ...new Set(pairs)];
  fill(
    "host",
    names.map((name) => [name, name || "as the preset has it"]),
    hosts.join("@"),
  );
  fill(
    "size",
    SIZES.map((size) => [String(size), bytesText(size)]),
    String(size()),
  );
  const tables = catalogue.tables.filter((one) => one.test === state.test);
  fill(
    "table",
    [["", "of this card"], ["none", "none"], ...tables.map((one) => [one.name, one.name])],
    state.table,
  );
  fill(
    "show",
    [
      ["gbps", "Gb/s"],
      ["rate", "messages per second"],
    ],
    state.show || "gbps",
  );
  $("show").closest("label").hidden = isLatency();
  $("log").checked = isLog();
  document.querySelector('label[for="table"]').hidden = state.x !== "size";
  $("table").hidden = state.x !== "size";
}

// ---- Changes

// Loads the preset with and without the changes. False: it is refused, or there was another change
// meanwhile.
async function loadPreset(isLast) {
  const set = Object.entries(state.set).map(([key, value]) => `${key}=${value}`);
  const [changed, own] = await Promise.all([
    pool.ask({ ask: "preset", preset: state.preset, set }),
    pool.ask({ ask: "preset", preset: state.preset }),
  ]);
  if (!isLast()) return false;
  const refused = own.error ?? changed.error;
  $("error").hidden = !refused;
  if (refused) show("error", refused);
  if (own.error) return false;
  unchanged = own;
  if (!changed.error) preset = changed;
  preset ??= own;
  preset.mtu = state.options.mtu ?? parameterOf(preset, "transport.path_mtu_bytes").value;
  const known = new Set(CONTROLS.map((control) => control.key));
  for (const key of Object.keys(state.set)) {
    const parameter = parameterOf(unchanged, key);
    if (parameter && !known.has(key) && !extra.some((one) => one.key === key))
      extra.push(otherControl(parameter));
  }
  if (state.x !== "size" && !controls().some((one) => one.key === state.x)) state.x = "size";
  return !changed.error;
}

// Says in the document whether it shows everything.
function mark() {
  document.body.dataset.state = shown === updates && pool.open() === 0 ? "done" : "working";
}

async function update() {
  updates += 1;
  const own = updates;
  mark();
  if (location.hash !== hash()) history.replaceState(null, "", hash());
  if (await loadPreset(() => own === updates)) {
    renderChoices();
    renderControls();
    pool.want(wanted());
    render();
    await renderCommand(() => own === updates);
  }
  if (own === updates) shown = own;
  mark();
}

function listen() {
  const on = (id, act) =>
    $(id).addEventListener("change", (event) => {
      act(event.target);
      update();
    });
  on("test", ({ value }) => {
    state.test = value;
    state.table = "";
    state.scale = "";
    state.show = "";
  });
  on("card", ({ value }) => {
    state.preset = value;
    state.set = {};
    extra = [];
  });
  on("host", ({ value }) => {
    state.preset = [state.preset.split("@")[0], value].filter(Boolean).join("@");
  });
  on("x", ({ value }) => {
    state.x = value;
    state.pick = null;
  });
  on("size", ({ value }) => {
    state.size = Number(value);
  });
  on("table", ({ value }) => {
    state.table = value;
  });
  on("show", ({ value }) => {
    state.show = value;
  });
  on("log", ({ checked }) => {
    state.scale = checked ? "log" : "linear";
  });
  for (const id of ["memory", "remote-memory"])
    on(id, ({ value }) => (value ? (state.options[id] = value) : delete state.options[id]));
  on("connection", ({ value }) =>
    value === "RC" ? delete state.options.connection : (state.options.connection = value),
  );
  on("bidirectional", ({ checked }) =>
    checked ? (state.options.bidirectional = true) : delete state.options.bidirectional,
  );
  $("sliders").addEventListener("input", ({ target }) => {
    const key = target.closest("[data-key]").dataset.key;
    const control = controls().find((one) => one.key === key);
    change(key, stops(control)[Number(target.value)]);
    update();
  });
  $("sliders").addEventListener("click", ({ target }) => {
    if (!target.classList.contains("reset")) return;
    const key = target.closest("[data-key]").dataset.key;
    delete (isOption(key) ? state.options : state.set)[key];
    update();
  });
  on("other", (input) => {
    const parameter = parameterOf(unchanged, input.value);
    if (!parameter) return;
    if (![...CONTROLS, ...extra].some((one) => one.key === parameter.key))
      extra.push(otherControl(parameter));
    input.value = "";
  });
  $("plot").addEventListener("click", ({ target }) => {
    if (!target.dataset.x) return;
    if (state.x === "size") state.size = Number(target.dataset.x);
    else state.pick = places().find((place) => String(place.x) === target.dataset.x)?.x ?? null;
    update();
  });
  $("repeat").addEventListener("click", () => {
    const one = table();
    Object.assign(state, { preset: one.preset, set: {}, options: { ...one.options } });
    for (const text of one.set) state.set[text.split("=")[0]] = Number(text.split("=")[1]);
    update();
  });
  $("reset").addEventListener("click", () => {
    Object.assign(state, { set: {}, options: {} });
    extra = [];
    update();
  });
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const from = button.dataset.copy;
      const text = from === "link" ? location.href : $(from).textContent;
      const copied = navigator.clipboard?.writeText(text) ?? Promise.reject();
      show(
        "copied",
        await copied.then(
          () => "copied",
          () => "the browser does not permit it",
        ),
      );
    });
  }
  addEventListener("hashchange", () => {
    if (location.hash !== hash()) {
      state = read(location.hash);
      extra = [];
      update();
    }
  });
  addEventListener("resize", render);
}

async function begin() {
  const packed = Uint8Array.from(atob($("module").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const module = await new Response(stream).arrayBuffer();
  const workers = Math.max(1, Math.min(4, (navigator.hardwareConcurrency ?? 2) - 1));
  pool = new Pool(module, $("worker").textContent, workers);
  pool.listener = () => {
    render();
    mark();
  };
  catalogue = await pool.ask({ ask: "catalogue" });
  show("version", catalogue.version);
  state = read(location.hash);
  listen();
  await update();
}

begin().catch((error) => {
  $("error").hidden = false;
  show("error", `This browser cannot run the model: ${error}`);
});
