// Globals of the realm that code runs in: console, process, timers, display.
(function (native) {
  "use strict";
  // There are no threads to share memory with.
  delete globalThis.SharedArrayBuffer;
  delete globalThis.Atomics;
  const hidden = (object, key, value) =>
    Object.defineProperty(object, key, { value, writable: true, configurable: true, enumerable: false });
  const expose = (members) => {
    for (const key of Object.keys(members)) hidden(globalThis, key, members[key]);
  };

  let indent = "";
  const print = (stream, values) => {
    let text = native.format(...values);
    if (indent) text = indent + text.replaceAll("\n", "\n" + indent);
    native.write(stream, text + "\n");
  };
  const counts = new Map();
  const times = new Map();
  const elapsed = (label, what) => {
    const started = times.get(String(label));
    if (started === undefined) return print(2, [`No such label '${label}' for console.${what}()`]);
    return `${label}: ${(performance.now() - started).toFixed(3)}ms`;
  };
  const table = (rows) => {
    if (rows === null || typeof rows !== "object") return print(1, [rows]);
    const text = (value) => (value === undefined ? "" : native.inspect(value, 0));
    const lines = rows instanceof Map ? [...rows] : Object.entries(rows);
    const columns = [];
    let plain = false;
    for (const [, row] of lines) {
      if (row === null || typeof row !== "object") plain = true;
      else for (const key of Object.keys(row)) if (!columns.includes(key)) columns.push(key);
    }
    const header = ["(index)", ...columns, ...(plain ? ["Values"] : [])];
    const cells = lines.map(([key, row]) => {
      const isObject = row !== null && typeof row === "object";
      return [String(key), ...columns.map((c) => text(isObject ? row[c] : undefined)), ...(plain ? [isObject ? "" : text(row)] : [])];
    });
    const widths = header.map((name, i) => Math.max(name.length, ...cells.map((row) => row[i].length)) + 2);
    const rule = (left, middle, right) => left + widths.map((w) => "─".repeat(w)).join(middle) + right;
    const show = (row) => "│" + row.map((cell, i) => " " + cell.padEnd(widths[i] - 1)).join("│") + "│";
    print(1, [[rule("┌", "┬", "┐"), show(header), rule("├", "┼", "┤"), ...cells.map(show), rule("└", "┴", "┘")].join("\n")]);
  };
  const console = {
    log: (...values) => print(1, values),
    info: (...values) => print(1, values),
    debug: (...values) => print(1, values),
    warn: (...values) => print(2, values),
    error: (...values) => print(2, values),
    trace: (...values) => print(2, [`Trace: ${native.format(...values)}\n${new Error().stack.trimEnd()}`]),
    dir: (value, options) => print(1, [native.inspect(value, options?.depth === null ? 1000 : (options?.depth ?? 2))]),
    assert(condition, ...values) {
      if (condition) return;
      if (typeof values[0] === "string") values[0] = `Assertion failed: ${values[0]}`;
      else values.unshift("Assertion failed");
      print(2, values);
    },
    count(label = "default") {
      counts.set(String(label), (counts.get(String(label)) ?? 0) + 1);
      print(1, [`${label}: ${counts.get(String(label))}`]);
    },
    countReset: (label = "default") => void counts.delete(String(label)),
    group(...values) {
      if (values.length) print(1, values);
      indent += "  ";
    },
    groupEnd: () => void (indent = indent.slice(2)),
    table,
    time: (label = "default") => void times.set(String(label), performance.now()),
    timeEnd(label = "default") {
      const text = elapsed(label, "timeEnd");
      if (text) print(1, [text]);
      times.delete(String(label));
    },
    timeLog(label = "default", ...values) {
      const text = elapsed(label, "timeLog");
      if (text) print(1, [text, ...values]);
    },
  };
  console.groupCollapsed = console.group;
  console.dirxml = console.log;
  hidden(console, Symbol.toStringTag, "console");

  const { isView } = ArrayBuffer;
  const bytesOrText = (data) => {
    if (isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    return data instanceof ArrayBuffer ? data : String(data);
  };

  const env = {};
  const process = {
    env,
    argv: ["javascript"],
    pid: 1,
    platform: "wasi",
    arch: "wasm32",
    exitCode: undefined,
    version: "v0.16.2",
    versions: { quickjs: "0.16.2" },
    cwd: () => native.cwd(),
    chdir: (path) => native.chdir(String(path)),
    exit: (code) => native.exit(code === undefined ? (process.exitCode ?? 0) : code),
    nextTick: (act, ...values) => queueMicrotask(() => act(...values)),
    hrtime: Object.assign(
      (since) => {
        const ns = native.now();
        const [s, n] = since ?? [0, 0];
        const left = ns - s * 1e9 - n;
        return [Math.floor(left / 1e9), Math.floor(left % 1e9)];
      },
      { bigint: () => BigInt(Math.floor(native.now())) },
    ),
    uptime: () => performance.now() / 1000,
    memoryUsage: () => ({ heapUsed: native.memory() }),
    stdout: { write: (data) => (native.write(1, bytesOrText(data)), true), isTTY: false },
    stderr: { write: (data) => (native.write(2, bytesOrText(data)), true), isTTY: false },
  };
  hidden(process, Symbol.toStringTag, "process");

  const random = (length) => new Uint8Array(native.random(length));
  const INTEGERS = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array];
  const crypto = {
    getRandomValues(array) {
      if (!INTEGERS.some((kind) => array instanceof kind))
        throw new DOMException("The argument must be an integer typed array", "TypeMismatchError");
      if (array.byteLength > 65536) throw new DOMException("At most 65536 bytes at once", "QuotaExceededError");
      new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(random(array.byteLength));
      return array;
    },
    randomUUID() {
      const bytes = random(16);
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    },
    randomBytes: (length) => random(length),
  };
  hidden(crypto, Symbol.toStringTag, "Crypto");

  const later = (repeat) => (act, delay, ...values) =>
    (repeat ? native.setInterval : native.setTimeout)(act, delay, values.length ? values : undefined);
  const setTimeout = later(false);

  // Tells a value in all its forms; `{raw: true}`: the value is such forms, by MIME type.
  const display = (value, options) => native.display(value, options?.raw === true);

  expose({
    console,
    process,
    crypto,
    display,
    setTimeout,
    setInterval: later(true),
    setImmediate: (act, ...values) => setTimeout(act, 0, ...values),
    clearTimeout: (id) => native.clearTimeout(id),
    clearInterval: (id) => native.clearTimeout(id),
    clearImmediate: (id) => native.clearTimeout(id),
    global: globalThis,
  });
  const util = {
    inspect: Object.assign((value, options) => native.inspect(value, options?.depth === null ? 1000 : options?.depth), {
      custom: Symbol.for("nodejs.util.inspect.custom"),
    }),
    format: (...values) => native.format(...values),
    promisify: (act) => (...values) =>
      new Promise((resolve, reject) => act(...values, (error, value) => (error ? reject(error) : resolve(value)))),
  };
  const sleep = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));
  const modules = {
    __proto__: null,
    process,
    util,
    crypto,
    console,
    timers: { setTimeout, setInterval: globalThis.setInterval, setImmediate: globalThis.setImmediate },
    "timers/promises": { setTimeout: sleep },
  };

  // What `Intl` is made of, whatever code has done to it by then.
  const uncurry = (act) => Function.prototype.call.bind(act);
  const intrinsics = {
    __proto__: null,
    Object,
    Number,
    String,
    now: Date.now,
    isArray: Array.isArray,
    defineProperty: Object.defineProperty,
    ownKeys: Reflect.ownKeys,
    construct: Reflect.construct,
    slice: uncurry(String.prototype.slice),
    toStringTag: Symbol.toStringTag,
    errors: { __proto__: null, Error, EvalError, InternalError, RangeError, ReferenceError, SyntaxError, TypeError },
  };
  const numberOf = uncurry(Number.prototype.valueOf);
  const bigintOf = uncurry(BigInt.prototype.valueOf);
  const timeOf = uncurry(Date.prototype.getTime);
  const { isNaN } = Number;
  const typedLength = uncurry(Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Int8Array.prototype), "length").get);
  // A method whose length is 0, as both of its arguments may be left out.
  const localized = (kind, name, act) => {
    const { [name]: made } = {
      [name](locales, options) {
        return act(this, locales, options);
      },
    };
    intrinsics.defineProperty(made, "length", { value: 0 });
    hidden(kind.prototype, name, made);
  };
  const date = (name, required, defaults) =>
    localized(Date, name, (self, locales, options) => {
      const time = timeOf(self);
      return isNaN(time) ? "Invalid Date" : native.intl().date(time, locales, options, required, defaults);
    });
  localized(Number, "toLocaleString", (self, locales, options) => native.intl().number(numberOf(self), locales, options));
  localized(BigInt, "toLocaleString", (self, locales, options) => native.intl().number(bigintOf(self), locales, options));
  date("toLocaleString", "any", "all");
  date("toLocaleDateString", "date", "date");
  date("toLocaleTimeString", "time", "time");
  const elements = (self, length, locales, options) => {
    let text = "";
    for (let i = 0; i < length; i++) {
      if (i) text += ",";
      const value = self[i];
      if (value !== undefined && value !== null) text += value.toLocaleString(locales, options);
    }
    return text;
  };
  localized(Array, "toLocaleString", (self, locales, options) => {
    const list = intrinsics.Object(self);
    return elements(list, intrinsics.Number(list.length), locales, options);
  });
  localized(Object.getPrototypeOf(Int8Array), "toLocaleString", (self, locales, options) => elements(self, typedLength(self), locales, options));
  return { env, modules, expose, hidden, intrinsics };
})
