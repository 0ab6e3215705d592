// What browsers and Node have in common beyond the language: text, clones, addresses, bytes.
(function (native, shared) {
  "use strict";
  const { modules, expose, hidden } = shared;
  const viewOf = (input) => {
    if (input === undefined) return new Uint8Array(0);
    if (input instanceof ArrayBuffer) return new Uint8Array(input);
    if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    throw new TypeError("The input must be a buffer or a view of one");
  };
  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return new Uint8Array(native.encode(String(text).toWellFormed()));
    }
    encodeInto(text, target) {
      let read = 0;
      let written = 0;
      for (const c of String(text).toWellFormed()) {
        const bytes = new Uint8Array(native.encode(c));
        if (written + bytes.length > target.length) break;
        target.set(bytes, written);
        written += bytes.length;
        read += c.length;
      }
      return { read, written };
    }
  }
  const LABELS = { "utf-8": "utf-8", utf8: "utf-8", "utf-16le": "utf-16le", "utf-16": "utf-16le", latin1: "windows-1252", "iso-8859-1": "windows-1252", ascii: "windows-1252", "windows-1252": "windows-1252" };
  class TextDecoder {
    #rest = new Uint8Array(0);
    #begun = false;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      this.encoding = LABELS[String(label).trim().toLowerCase()];
      if (!this.encoding) throw new RangeError(`The encoding '${label}' is not supported`);
      this.fatal = fatal;
      this.ignoreBOM = ignoreBOM;
    }
    decode(input, { stream = false } = {}) {
      const more = viewOf(input);
      let bytes = more;
      if (this.#rest.length) {
        bytes = new Uint8Array(this.#rest.length + more.length);
        bytes.set(this.#rest);
        bytes.set(more, this.#rest.length);
      }
      let end = bytes.length;
      if (stream) end -= this.#tail(bytes);
      this.#rest = bytes.slice(end);
      let text = this.#text(bytes, end);
      if (!this.ignoreBOM && !this.#begun && text.startsWith("\ufeff")) text = text.slice(1);
      this.#begun = stream && (this.#begun || end > 0);
      return text;
    }
    // Bytes at the end that may be the head of a character.
    #tail(bytes) {
      if (this.encoding === "utf-16le") return bytes.length % 2;
      if (this.encoding !== "utf-8") return 0;
      for (let n = 1; n <= Math.min(3, bytes.length); n++) {
        const byte = bytes[bytes.length - n];
        if (byte < 0x80) return 0;
        if (byte >= 0xc0) return n < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? n : 0;
      }
      return 0;
    }
    #text(bytes, end) {
      if (this.encoding === "utf-8") return native.decode(bytes.buffer, bytes.byteOffset, end, this.fatal);
      let text = "";
      if (this.encoding === "utf-16le") {
        for (let i = 0; i + 1 < end; i += 2) text += String.fromCharCode(bytes[i] | (bytes[i + 1] << 8));
        return this.fatal ? text : text.toWellFormed();
      }
      for (let i = 0; i < end; i++) text += String.fromCharCode(bytes[i]);
      return text;
    }
  }

  const uncloneable = (value) => {
    throw new DOMException(`${native.inspect(value, 0)} could not be cloned.`, "DataCloneError");
  };
  const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
  function structuredClone(value, options) {
    const known = new Map();
    const moved = options?.transfer ?? [];
    const clone = (value) => {
      if (typeof value === "function" || typeof value === "symbol") return uncloneable(value);
      if (value === null || typeof value !== "object") return value;
      if (known.has(value)) return known.get(value);
      const keep = (copy) => (known.set(value, copy), copy);
      const kind = native.classOf(value);
      switch (kind) {
        case "Boolean":
        case "Number":
        case "String":
        case "BigInt":
          return keep(Object(value.valueOf()));
        case "Date":
          return keep(new Date(value.getTime()));
        case "RegExp":
          return keep(new RegExp(value.source, value.flags));
        case "ArrayBuffer":
          return keep(moved.includes(value) ? value.transfer() : value.slice(0));
        case "Map": {
          const copy = keep(new Map());
          for (const [k, v] of value) copy.set(clone(k), clone(v));
          return copy;
        }
        case "Set": {
          const copy = keep(new Set());
          for (const v of value) copy.add(clone(v));
          return copy;
        }
        case "Error": {
          const made = keep(new (ERRORS[value.name] ?? Error)(value.message));
          hidden(made, "stack", value.stack);
          if ("cause" in value) hidden(made, "cause", clone(value.cause));
          return made;
        }
        case "Array":
        case "Object":
        case "Arguments": {
          const copy = keep(kind === "Array" ? new Array(value.length) : {});
          for (const key of Object.keys(value)) copy[key] = clone(value[key]);
          return copy;
        }
      }
      if (ArrayBuffer.isView(value)) {
        const buffer = clone(value.buffer);
        const length = value instanceof DataView ? value.byteLength : value.length;
        return keep(new globalThis[kind](buffer, value.byteOffset, length));
      }
      return uncloneable(value);
    };
    return clone(value);
  }

  const HEX = /^(?:[0-9a-fA-F]{2})*/;
  class Buffer extends Uint8Array {
    static from(data, encoding, length) {
      if (typeof data === "string") {
        switch (String(encoding ?? "utf8").toLowerCase()) {
          case "hex": {
            const hex = data.match(HEX)[0];
            return Buffer.#of(Uint8Array.from({ length: hex.length / 2 }, (_, i) => parseInt(hex.slice(2 * i, 2 * i + 2), 16)));
          }
          case "base64":
          case "base64url": {
            const plain = data.replace(/-/g, "+").replace(/_/g, "/").replace(/[^A-Za-z0-9+/]/g, "");
            return Buffer.from(atob(plain.length % 4 === 1 ? plain.slice(0, -1) : plain), "latin1");
          }
          case "latin1":
          case "binary":
          case "ascii":
            return Buffer.#of(Uint8Array.from(data, (c) => c.charCodeAt(0)));
          default:
            return Buffer.#of(new TextEncoder().encode(data));
        }
      }
      if (data instanceof ArrayBuffer) return new Buffer(data, encoding, length);
      return Buffer.#of(Uint8Array.from(data));
    }
    static #of(bytes) {
      return new Buffer(bytes.buffer, bytes.byteOffset, bytes.length);
    }
    static alloc(length, fill = 0) {
      const made = new Buffer(length);
      if (fill) made.fill(typeof fill === "string" ? fill.charCodeAt(0) : fill);
      return made;
    }
    static concat(list, total) {
      const made = new Buffer(total ?? list.reduce((n, one) => n + one.length, 0));
      let at = 0;
      for (const one of list) {
        made.set(one.subarray(0, made.length - at), at);
        at += one.length;
      }
      return made;
    }
    static isBuffer = (value) => value instanceof Buffer;
    static byteLength = (text, encoding) => (typeof text === "string" ? Buffer.from(text, encoding).length : text.byteLength);
    toString(encoding = "utf8", start = 0, end = this.length) {
      const bytes = this.subarray(start, end);
      switch (String(encoding).toLowerCase()) {
        case "hex":
          return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
        case "base64":
          return btoa(new TextDecoder("latin1").decode(bytes));
        case "base64url":
          return btoa(new TextDecoder("latin1").decode(bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
        case "latin1":
        case "binary":
        case "ascii":
          return new TextDecoder("latin1").decode(bytes);
        default:
          return native.decode(bytes.buffer, bytes.byteOffset, bytes.length, false);
      }
    }
    equals(other) {
      return this.length === other.length && this.every((b, i) => b === other[i]);
    }
    toJSON() {
      return { type: "Buffer", data: Array.from(this) };
    }
  }

  class URLSearchParams {
    #pairs = [];
    #changed;
    constructor(init = "", changed) {
      this.#changed = changed;
      if (typeof init === "string") this.#parse(init);
      else if (init[Symbol.iterator]) for (const [k, v] of init) this.#pairs.push([String(k), String(v)]);
      else for (const k of Object.keys(init)) this.#pairs.push([k, String(init[k])]);
    }
    #parse(text) {
      const plain = (part) => {
        const spaced = part.replaceAll("+", " ");
        try {
          return decodeURIComponent(spaced);
        } catch {
          return spaced;
        }
      };
      for (const part of text.replace(/^\?/, "").split("&")) {
        if (!part) continue;
        const at = part.indexOf("=");
        this.#pairs.push(at < 0 ? [plain(part), ""] : [plain(part.slice(0, at)), plain(part.slice(at + 1))]);
      }
    }
    #tell() {
      this.#changed?.(this.toString());
    }
    get size() {
      return this.#pairs.length;
    }
    get(name) {
      return this.#pairs.find(([k]) => k === name)?.[1] ?? null;
    }
    getAll(name) {
      return this.#pairs.filter(([k]) => k === name).map(([, v]) => v);
    }
    has(name) {
      return this.#pairs.some(([k]) => k === name);
    }
    append(name, value) {
      this.#pairs.push([String(name), String(value)]);
      this.#tell();
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([k]) => k === name);
      if (at < 0) return this.append(name, value);
      this.#pairs[at][1] = String(value);
      this.#pairs = this.#pairs.filter(([k], i) => k !== name || i === at);
      this.#tell();
    }
    delete(name) {
      this.#pairs = this.#pairs.filter(([k]) => k !== name);
      this.#tell();
    }
    sort() {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#tell();
    }
    forEach(act, self) {
      for (const [k, v] of this.#pairs) act.call(self, v, k, this);
    }
    *entries() {
      for (const [k, v] of this.#pairs) yield [k, v];
    }
    *keys() {
      for (const [k] of this.#pairs) yield k;
    }
    *values() {
      for (const [, v] of this.#pairs) yield v;
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toString() {
      const code = (text) => encodeURIComponent(text.toWellFormed()).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
      return this.#pairs.map(([k, v]) => `${code(k)}=${code(v)}`).join("&");
    }
  }

  const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
  const escaped = (text, keep) => text.replace(keep, (c) => encodeURIComponent(c.toWellFormed()));
  class URL {
    #parts;
    #params;
    constructor(address, base) {
      const parts = URL.#parse(String(address).trim(), base === undefined ? null : new URL(base).#parts);
      if (!parts) throw Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL", input: String(address) });
      this.#parts = parts;
    }
    static canParse(address, base) {
      try {
        return new URL(address, base) !== null;
      } catch {
        return false;
      }
    }
    static parse(address, base) {
      return URL.canParse(address, base) ? new URL(address, base) : null;
    }
    static #parse(text, base) {
      const [, scheme, rest] = text.match(/^([A-Za-z][A-Za-z0-9+.-]*:)?([^]*)$/);
      const [, body, query = "", hash = ""] = rest.match(/^([^?#]*)(\?[^#]*)?(#[^]*)?$/);
      const protocol = scheme?.toLowerCase() ?? base?.protocol;
      if (!protocol) return null;
      const special = protocol in PORTS;
      const parts = { protocol, username: "", password: "", hostname: "", port: "", pathname: "", opaque: false };
      parts.search = query === "?" ? "" : escaped(query, /[^\x21\x23-\x3b\x3d\x3f-\x7e%]/gu);
      parts.hash = hash === "#" ? "" : escaped(hash, /[^\x21\x23-\x3b\x3d\x3f-\x5f\x61-\x7e%]/gu);
      let path = special ? body.replaceAll("\\", "/") : body;
      const absolute = scheme && !(special && base?.protocol === protocol && !path.startsWith("/"));
      if (path.startsWith("//") || (special && absolute && protocol !== "file:")) {
        const [, authority, after] = path.match(/^\/*([^/]*)([^]*)$/);
        const at = authority.lastIndexOf("@");
        const host = authority.slice(at + 1).match(/^(\[[0-9A-Fa-f:.]+\]|[^:]*)(?::(\d*))?$/);
        if (!host || (special && protocol !== "file:" && !host[1]) || /[\s<>^|%#\\]/.test(host[1]) || Number(host[2]) > 65535) return null;
        if (at >= 0) [parts.username, parts.password = ""] = authority.slice(0, at).split(/:([^]*)/);
        parts.hostname = special ? host[1].toLowerCase() : host[1];
        parts.port = host[2] && String(Number(host[2])) !== PORTS[protocol] ? String(Number(host[2])) : "";
        path = after;
      } else if (!absolute) {
        if (!base || base.opaque) return null;
        Object.assign(parts, { username: base.username, password: base.password, hostname: base.hostname, port: base.port });
        if (path === "") {
          path = base.pathname;
          if (!query) parts.search = base.search;
        } else if (!path.startsWith("/")) path = base.pathname.replace(/[^/]*$/, "") + path;
      } else if (!special && !path.startsWith("/")) {
        return { ...parts, pathname: path, opaque: true };
      }
      const out = [];
      const steps = path.split("/");
      steps.forEach((step, i) => {
        const plain = step.replace(/%2e/gi, ".");
        if (plain === "..") out.length > 1 && out.pop();
        else if (plain !== ".") return out.push(step);
        if (i === steps.length - 1) out.push("");
      });
      path = escaped(out.join("/"), /[^\x21\x24-\x3b\x3d\x40-\x5f\x61-\x7a\x7c\x7e%]/gu);
      parts.pathname = special && !path.startsWith("/") ? "/" + path : path;
      return parts;
    }
    get href() {
      const { protocol, username, password, pathname, search, hash, opaque } = this.#parts;
      const user = username || password ? `${username}${password ? ":" + password : ""}@` : "";
      const authority = !opaque && (this.host || protocol === "file:" || user) ? `//${user}${this.host}` : "";
      return protocol + authority + pathname + search + hash;
    }
    set href(value) {
      this.#parts = new URL(value).#parts;
      this.#params = undefined;
    }
    get origin() {
      const { protocol } = this.#parts;
      return protocol in PORTS && protocol !== "file:" ? `${protocol}//${this.host}` : "null";
    }
    get host() {
      const { hostname, port } = this.#parts;
      return port ? `${hostname}:${port}` : hostname;
    }
    set host(value) {
      [this.#parts.hostname, this.#parts.port = ""] = String(value).split(":");
    }
    get searchParams() {
      return (this.#params ??= new URLSearchParams(this.#parts.search, (text) => (this.#parts.search = text ? "?" + text : "")));
    }
    get search() {
      return this.#parts.search;
    }
    set search(value) {
      const text = String(value).replace(/^\?/, "");
      this.#parts.search = text ? "?" + text : "";
      this.#params = undefined;
    }
    get hash() {
      return this.#parts.hash;
    }
    set hash(value) {
      const text = String(value).replace(/^#/, "");
      this.#parts.hash = text ? "#" + text : "";
    }
    static {
      for (const key of ["protocol", "username", "password", "hostname", "port", "pathname"]) {
        Object.defineProperty(URL.prototype, key, {
          configurable: true,
          enumerable: true,
          get() {
            return this.#parts[key];
          },
          set(value) {
            let text = String(value);
            if (key === "protocol" && !text.endsWith(":")) text += ":";
            if (key === "pathname" && !text.startsWith("/")) text = "/" + text;
            if (key === "port" && text === PORTS[this.#parts.protocol]) text = "";
            this.#parts[key] = text;
          },
        });
      }
    }
    toString() {
      return this.href;
    }
    toJSON() {
      return this.href;
    }
    [Symbol.for("nodejs.util.inspect.custom")]() {
      return `URL { href: '${this.href}' }`;
    }
  }

  class AbortSignal extends EventTargetOf() {
    aborted = false;
    reason = undefined;
    throwIfAborted() {
      if (this.aborted) throw this.reason;
    }
    static abort(reason = new DOMException("This operation was aborted", "AbortError")) {
      return Object.assign(new AbortSignal(), { aborted: true, reason });
    }
    static timeout(ms) {
      const control = new AbortController();
      setTimeout(() => control.abort(new DOMException("The operation timed out", "TimeoutError")), ms);
      return control.signal;
    }
  }
  class AbortController {
    signal = new AbortSignal();
    abort(reason = new DOMException("This operation was aborted", "AbortError")) {
      if (this.signal.aborted) return;
      Object.assign(this.signal, { aborted: true, reason });
      this.signal.dispatchEvent(new Event("abort"));
    }
  }
  function EventTargetOf() {
    class Event {
      constructor(type, init) {
        Object.assign(this, { type, target: null, defaultPrevented: false, ...init });
      }
      preventDefault() {
        this.defaultPrevented = true;
      }
    }
    class EventTarget {
      #listeners = new Map();
      addEventListener(type, act, options) {
        const list = this.#listeners.get(type) ?? [];
        if (!list.some((one) => one.act === act)) this.#listeners.set(type, [...list, { act, once: options?.once === true }]);
      }
      removeEventListener(type, act) {
        this.#listeners.set(type, (this.#listeners.get(type) ?? []).filter((one) => one.act !== act));
      }
      dispatchEvent(event) {
        event.target ??= this;
        this[`on${event.type}`]?.(event);
        for (const { act, once } of this.#listeners.get(event.type) ?? []) {
          if (once) this.removeEventListener(event.type, act);
          if (typeof act === "function") act.call(this, event);
          else act.handleEvent(event);
        }
        return !event.defaultPrevented;
      }
    }
    expose({ Event, EventTarget });
    return EventTarget;
  }

  expose({ TextEncoder, TextDecoder, structuredClone, Buffer, URL, URLSearchParams, AbortController, AbortSignal });
  Object.assign(modules, { buffer: { Buffer }, url: { URL, URLSearchParams, pathToFileURL: (path) => new URL(`file://${path}`), fileURLToPath: (url) => new URL(url).pathname } });
})
