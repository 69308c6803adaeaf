// Runs the model. The first message has the bytes of the module; each other one is a request.
"use strict";
let ready;

function ask(model, text) {
  const bytes = new TextEncoder().encode(text);
  const place = model.reserve(bytes.length);
  new Uint8Array(model.memory.buffer, place, bytes.length).set(bytes);
  const length = model.run();
  // The memory may have grown, so the view is made afterwards.
  return new TextDecoder().decode(new Uint8Array(model.memory.buffer, model.address(), length));
}

onmessage = async ({ data }) => {
  if (data instanceof ArrayBuffer) {
    ready = WebAssembly.instantiate(data, {}).then((module) => module.instance.exports);
    return;
  }
  try {
    const model = await ready;
    const begin = performance.now();
    const answer = ask(model, data);
    postMessage({ request: data, answer, ms: performance.now() - begin });
  } catch (error) {
    postMessage({
      request: data,
      answer: JSON.stringify({ error: `the model has stopped: ${error}` }),
      broken: true,
    });
  }
};
