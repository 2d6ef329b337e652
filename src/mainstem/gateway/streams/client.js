/**
 * Mainstem in a web page: bind to a view, write to the log. No dependencies; served by every gateway at /client.js.
 *
 *     import { signal, append } from "http://localhost:8080/client.js";
 *     const counter = signal("counters", "visits");
 *     counter.subscribe((row) => { document.title = row ? row.n : "–"; });
 *     await append("visits", { key: "visits", value: { n: 1 } });
 *
 * Everything that is live reconnects by itself and goes on where it was: nothing is missed, and no older row follows a
 * newer one. What the gateway refuses is thrown as a {@link ProblemError}. The functions talk to the gateway that the
 * module came from; `new Mainstem({ url, token })` talks to another one, or as somebody.
 *
 * @typedef {string} Position where a log is, e.g. "flights/0:17,flights/3:9"
 * @typedef {Object<string, *>} Row one row of a view; its key is `_key`
 * @typedef {{key?: ?string, value: *, headers?: Object<string, ?string>, partition?: number, timestamp_ms?: number}}
 *     NewRecord
 * @typedef {{partition: number, offset: number, timestamp_ms: number, key?: ?string, value?: *, headers: Array}} LogRecord
 * @typedef {{ifMatch?: number|string, ifNoneMatch?: boolean, expectEnd?: number, idempotencyKey?: string}} Conditions
 */

const RETRY_MS = 1_000;
const RETRY_MAX_MS = 30_000;
const SILENCE_MS = 45_000; // the gateway gives a sign of life every 15 s
const PAGE = 1_000;

/** What the gateway refused (RFC 9457): `type`, `title`, `status`, `detail`, and members such as `actual`. */
export class ProblemError extends Error {
  /** @param {Object<string, *>} document the problem document */
  constructor(document) {
    super(document.detail || document.title || `HTTP status ${document.status}`);
    this.name = "ProblemError";
    Object.assign(this, document);
    /** @type {string} the kind of problem, e.g. "condition-failed" */
    this.kind = String(document.type || "").split("/").pop();
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return !this.status || this.status >= 500 || this.status === 408 || this.status === 429;
  }
}

/** A gateway. `token` is a bearer token, or a function that gives one (or a promise of one). */
export class Mainstem {
  /** @param {{url?: string, token?: string|function(): (string|Promise<string>)}} [options] */
  constructor({ url, token } = {}) {
    this.url = (url || new URL(".", import.meta.url).href).replace(/\/+$/, "");
    this.token = token;
  }

  /**
   * Append one record or several; they are durable when the promise is fulfilled.
   *
   * Conditions are for one record: `ifMatch` is the last offset of its key, `ifNoneMatch` says that the key has none,
   * `expectEnd` is the partition's end. What does not hold is a ProblemError with status 412 and `actual`.
   *
   * @param {string} topic
   * @param {NewRecord|NewRecord[]} records
   * @param {Conditions} [conditions]
   * @returns {Promise<Position>} the position just after them
   */
  async append(topic, records, { ifMatch, ifNoneMatch, expectEnd, idempotencyKey } = {}) {
    const headers = { "Content-Type": "application/json" };
    if (ifMatch !== undefined) headers["If-Match"] = `"${String(ifMatch).replaceAll('"', "")}"`;
    if (ifNoneMatch) headers["If-None-Match"] = "*";
    if (expectEnd !== undefined) headers["Mainstem-Expect-End"] = String(expectEnd);
    if (idempotencyKey !== undefined) headers["Idempotency-Key"] = idempotencyKey;
    const body = JSON.stringify({ records: Array.isArray(records) ? records : [records] });
    const path = `/topics/${encodeURIComponent(topic)}/records`;
    return (await (await this.fetch(path, { method: "POST", headers, body })).json()).position;
  }

  /**
   * The row of one key of a view, null when there is none.
   *
   * @param {string} view
   * @param {string} key
   * @param {{atLeast?: Position, timeout?: number}} [options] `atLeast`: a position that the row must reflect; it is
   *     waited for up to `timeout` seconds
   * @returns {Promise<{row: ?Row, position: Position}>}
   */
  async get(view, key, { atLeast, timeout } = {}) {
    const keys = `/views/${encodeURIComponent(view)}/keys`;
    const isDots = key === "." || key === ".."; // in a path they mean this place and the one above, also escaped
    const one = isDots ? { start: key, end: `${key}\0`, limit: 1 } : {};
    const path = isDots ? keys : `${keys}/${encodeURIComponent(key)}`;
    const answer = await (await this.fetch(path + query({ ...one, at_least: atLeast, timeout }))).json();
    return { row: answer.rows[0] ?? null, position: answer.position };
  }

  /**
   * The rows of the keys with a prefix, all of them, and a position that each reflects at least.
   *
   * @param {string} view
   * @param {{prefix?: string, atLeast?: Position}} [options]
   * @returns {Promise<{rows: Row[], position: Position}>}
   */
  async range(view, { prefix = "", atLeast } = {}) {
    const rows = [];
    let position;
    for (let after; ; ) {
      const parameters = query({ prefix, after, limit: PAGE, at_least: atLeast });
      const answer = await (await this.fetch(`/views/${encodeURIComponent(view)}/keys${parameters}`)).json();
      rows.push(...answer.rows);
      position ??= answer.position;
      if (answer.next === null) return { rows, position };
      after = answer.next;
    }
  }

  /**
   * One key of a view as a live value: the row, or null when there is none; undefined until the first has come.
   *
   * @param {string} view
   * @param {string} key
   * @param {{onError?: function(Error)}} [options] `onError`: what ended it, e.g. a view that there is not
   * @returns {Signal<?Row>}
   */
  signal(view, key, { onError } = {}) {
    const live = new Signal(onError);
    live.listen(this, `/views/${encodeURIComponent(view)}/stream`, { key }, (name, data) => {
      if (name === "message") live.set(data.row, data.position);
    });
    return live;
  }

  /**
   * All keys of a view with a prefix as one live value: a Map of rows by key, in no order; undefined until it is there.
   * A new Map with each change.
   *
   * @param {string} view
   * @param {{prefix?: string, onError?: function(Error)}} [options]
   * @returns {Signal<Map<string, Row>>}
   */
  rows(view, { prefix = "", onError } = {}) {
    const live = new Signal(onError);
    const path = `/views/${encodeURIComponent(view)}/stream`;
    const read = async (atLeast) => {
      const { rows, position } = await this.range(view, { prefix, atLeast });
      live.set(new Map(rows.map((row) => [row._key, row])), position);
      return position;
    };
    live.listen(this, path, { prefix }, async (name, data) => {
      if (name === "reset") await read(data.position);
      if (name !== "message") return;
      const rows = new Map(live.value);
      if (data.row === null) rows.delete(data.key);
      else rows.set(data.key, data.row);
      live.set(rows, data.position);
    }, () => read());
    return live;
  }

  /**
   * The records of a topic as they come: `onRecord(record, position)` for each, in the log's order in each partition.
   *
   * @param {string} topic
   * @param {function(LogRecord, Position)} onRecord
   * @param {{from?: string, key?: string, route?: string, onError?: function(Error)}} [options] `from`: where to begin,
   *     "latest" unless told; `key`: only records of this key; `route`: only those whose routing key matches
   * @returns {Signal<LogRecord>} the last record as a live value; `close()` ends it
   */
  follow(topic, onRecord, { from, key, route, onError } = {}) {
    const live = new Signal(onError);
    live.listen(this, `/topics/${encodeURIComponent(topic)}/stream`, { from, key, route }, (name, data, id) => {
      if (name !== "message") return;
      live.set(data, id);
      calling([onRecord], data, id);
    });
    return live;
  }

  /**
   * Any request to the gateway, with the token.
   *
   * @param {string} path
   * @param {RequestInit} [options]
   * @returns {Promise<Response>} a success; else a ProblemError is thrown
   */
  async fetch(path, options = {}) {
    const token = typeof this.token === "function" ? await this.token() : this.token;
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(this.url + path, { ...options, headers, cache: "no-store" });
    if (response.ok) return response;
    const document = await response.json().catch(() => ({}));
    throw new ProblemError({ status: response.status, ...document });
  }
}

/**
 * A live value.
 *
 * @template T
 */
export class Signal {
  #subscribers = new Set();
  #onError;
  #abort = new AbortController();

  /** @param {function(Error)} [onError] */
  constructor(onError) {
    this.#onError = onError;
    /** @type {T|undefined} the newest value; undefined until there is one */
    this.value = undefined;
    /** @type {Position|undefined} the position that the value reflects */
    this.position = undefined;
    /** @type {?Error} what ended it */
    this.error = null;
    /** @type {boolean} whether it is connected just now */
    this.isConnected = false;
  }

  /**
   * Call `f(value, position)` now, if there is a value, and at each change.
   *
   * @param {function(T, Position)} f
   * @returns {function(): void} ends it
   */
  subscribe(f) {
    this.#subscribers.add(f);
    if (this.value !== undefined) f(this.value, this.position);
    return () => this.#subscribers.delete(f);
  }

  /** End it: no more values, no more connection. */
  close() {
    this.#subscribers.clear();
    this.#abort.abort();
  }

  /** @package */
  set(value, position) {
    if (this.#abort.signal.aborted) return;
    this.value = value;
    this.position = position;
    calling([...this.#subscribers], value, position);
  }

  /** @package Listen until it is closed, or until the gateway says no for good. */
  async listen(gateway, path, parameters, onEvent, begin = async () => undefined) {
    const end = this.#abort.signal;
    let lastId;
    let hasBegun = false;
    let retryMs = RETRY_MS;
    for (let failures = 0; !end.aborted; ) {
      try {
        if (!hasBegun) lastId = await begin();
        hasBegun = true;
        const headers = lastId ? { "Last-Event-ID": lastId } : {};
        for await (const event of events(gateway, path + query(parameters), headers, end)) {
          this.isConnected = true;
          failures = 0;
          retryMs = event.retryMs ?? retryMs;
          if (event.name === "problem") throw new ProblemError(event.data);
          if (event.data !== undefined) await onEvent(event.name, event.data, event.id);
          lastId = event.id ?? lastId;
        }
      } catch (error) {
        if (end.aborted) return;
        if (error instanceof CallbackError) return this.#fail(error.cause);
        if (error instanceof ProblemError && !error.isTemporary) return this.#fail(error);
        failures += 1;
      } finally {
        this.isConnected = false;
      }
      const pauseMs = Math.min(retryMs * 2 ** Math.max(0, failures - 1), RETRY_MAX_MS);
      await sleep(pauseMs * (0.5 + Math.random() / 2), end);
    }
  }

  #fail(error) {
    this.error = error;
    if (this.#onError) this.#onError(error);
    else console.error(error);
  }
}

/** An exception of the page's own: to come back with the same event would only repeat it. */
class CallbackError extends Error {}

/** Call each of the page's functions; the first exception is thrown when all have been called. */
function calling(functions, ...values) {
  const thrown = [];
  for (const f of functions) {
    try {
      f(...values);
    } catch (error) {
      thrown.push(error);
    }
  }
  if (thrown.length) throw new CallbackError("a function of the page failed", { cause: thrown[0] });
}

/** One connection: its events, and what only moves the id, as they come. An event that is cut off does not count. */
async function* events(gateway, path, headers, end) {
  const abort = new AbortController();
  const stop = () => abort.abort();
  end.addEventListener("abort", stop);
  let alarm;
  const alive = () => {
    clearTimeout(alarm);
    alarm = setTimeout(stop, SILENCE_MS);
  };
  try {
    alive();
    const response = await gateway.fetch(path, { headers, signal: abort.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) yield parsed(block);
    }
  } finally {
    clearTimeout(alarm);
    end.removeEventListener("abort", stop);
    stop();
  }
}

/** One block of an event stream; without `data` it is no event. */
function parsed(block) {
  const event = { name: "message" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    const field = line.slice(0, colon);
    const value = line.slice(colon + 2);
    if (field === "id") event.id = value;
    else if (field === "event") event.name = value;
    else if (field === "data") event.data = JSON.parse(value);
    else if (field === "retry") event.retryMs = Number(value);
  }
  return event;
}

function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

function sleep(ms, end) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    end.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

const here = new Mainstem();
export const append = here.append.bind(here);
export const get = here.get.bind(here);
export const range = here.range.bind(here);
export const signal = here.signal.bind(here);
export const rows = here.rows.bind(here);
export const follow = here.follow.bind(here);
