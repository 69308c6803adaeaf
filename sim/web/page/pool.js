// Workers that answer requests, each one request at a time. The page always says which requests it
// wants; a worker that is busy with another one is ended, and a new one takes its place. Questions that
// take no time have their own worker, so that they do not wait for measurements.
"use strict";

class Pool {
  constructor(module, source, count) {
    this.module = module;
    this.url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.answers = new Map();
    this.wanted = [];
    this.asked = new Map();
    this.listener = () => {};
    this.workers = Array.from({ length: count }, () => this.start());
    this.quick = this.start();
  }

  start() {
    const worker = { thread: new Worker(this.url), request: null };
    worker.thread.onmessage = ({ data }) => this.done(worker, data);
    worker.thread.postMessage(this.module);
    return worker;
  }

  replace(worker) {
    worker.thread.terminate();
    this.workers[this.workers.indexOf(worker)] = this.start();
  }

  // Wants the answers to these requests, in this order, and no longer to any other.
  want(requests) {
    this.wanted = requests;
    for (const worker of [...this.workers]) {
      if (worker.request !== null && !requests.includes(worker.request)) this.replace(worker);
    }
    this.begin();
  }

  begin() {
    const running = new Set(this.workers.map((worker) => worker.request));
    const open = this.wanted.filter((text) => !this.answers.has(text) && !running.has(text));
    for (const worker of this.workers) {
      if (worker.request !== null || open.length === 0) continue;
      this.send(worker, open.shift());
    }
  }

  send(worker, request) {
    worker.request = request;
    worker.thread.postMessage(request);
  }

  done(worker, { request, answer, ms, broken }) {
    worker.request = null;
    this.answers.set(request, { ...JSON.parse(answer), ms });
    if (worker === this.quick) {
      this.asked.get(request)?.forEach((resolve) => resolve(this.answers.get(request)));
      this.asked.delete(request);
      this.next();
      return;
    }
    if (broken) this.replace(worker);
    this.begin();
    this.listener();
  }

  // The number of requests without an answer.
  open() {
    return this.wanted.filter((text) => !this.answers.has(text)).length;
  }

  // Resolves with the answer to a question.
  ask(question) {
    const request = JSON.stringify(question);
    if (this.answers.has(request)) return Promise.resolve(this.answers.get(request));
    return new Promise((resolve) => {
      this.asked.set(request, [...(this.asked.get(request) ?? []), resolve]);
      this.next();
    });
  }

  next() {
    const [request] = this.asked.keys();
    if (request !== undefined && this.quick.request === null) this.send(this.quick, request);
  }
}
