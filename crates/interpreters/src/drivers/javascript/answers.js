// In the realm that code cannot reach: values and errors as they are told.
(function (native) {
  "use strict";
  const CUSTOM = Symbol.for("nodejs.util.inspect.custom");
  const DISPLAY = Symbol.for("Jupyter.display");
  const WIDTH = 72;
  // Longest text of a result, characters; most that its JSON may hold, of what it has at least.
  const TEXT_MAX = 1 << 20;
  const JSON_MAX = 1 << 20;
  const { getOwnPropertyDescriptor, getPrototypeOf, prototype } = Object;
  const NONE = Symbol();

  const quiet = (act, otherwise) => {
    try {
      return act();
    } catch {
      return otherwise;
    }
  };
  // A property's value without running any code of its owner; undefined for accessors.
  const peek = (object, key) => {
    for (let at = object; at !== null && native.classOf(at) !== "Proxy"; at = getPrototypeOf(at)) {
      const own = getOwnPropertyDescriptor(at, key);
      if (own) return own.value;
    }
  };
  const isObject = (v) => v !== null && (typeof v === "object" || typeof v === "function");
  // Errors of other classes count as errors: DOMException, and objects that inherit from an
  // `Error.prototype`, of whichever realm, as functions made them before there were classes.
  const kindOf = (object) => {
    const kind = native.classOf(object);
    return kind === "DOMException" || (kind === "Object" && inheritsFromError(object)) ? "Error" : kind;
  };
  const inheritsFromError = (object) => {
    for (let at = getPrototypeOf(object); at !== null && native.classOf(at) !== "Proxy"; at = getPrototypeOf(at)) {
      const maker = getOwnPropertyDescriptor(at, "constructor")?.value;
      if (typeof maker === "function" && peek(maker, "name") === "Error" && peek(at, "name") === "Error") return true;
    }
    return false;
  };
  // Half a surrogate pair cannot leave as UTF-8.
  const whole = (text) => {
    if (text.isWellFormed()) return text;
    return text.replace(/\p{Surrogate}/gu, (c) => "\\u" + c.charCodeAt(0).toString(16).toUpperCase());
  };

  const ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" };
  const quote = (text) => {
    const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
    let inner = text.replace(/[\\\x00-\x1f\x7f-\x9f]|\p{Surrogate}/gu, (c) => {
      if (ESCAPES[c]) return ESCAPES[c];
      const hex = c.charCodeAt(0).toString(16).toUpperCase();
      return hex.length > 2 ? "\\u" + hex : "\\x" + hex.padStart(2, "0");
    });
    if (mark === "'") inner = inner.replaceAll("'", "\\'");
    return mark + inner + mark;
  };
  const symbol = (s) => Symbol.prototype.toString.call(s);
  const keyText = (key) => {
    if (typeof key === "symbol") return `[${whole(symbol(key))}]`;
    return /^[A-Za-z_$][\w$]*$/.test(key) ? key : quote(key);
  };

  const className = (object) => {
    for (let at = object; at !== null && native.classOf(at) !== "Proxy"; at = getPrototypeOf(at)) {
      const own = getOwnPropertyDescriptor(at, "constructor");
      if (own && typeof own.value === "function") {
        const name = peek(own.value, "name");
        if (typeof name === "string" && name) return whole(name);
      }
    }
    return null;
  };

  const frames = (error) => {
    const own = peek(error, "stack");
    const stack = typeof own === "string" ? own : quiet(() => STACK.call(error));
    if (typeof stack !== "string") return [];
    return stack.split("\n").filter((line) => line.trim() && !line.includes("sandkeep:"));
  };
  const headline = (error) => {
    // Its own are behind accessors of the other realm.
    const dom = native.classOf(error) === "DOMException";
    const text = (key) => {
      const value = dom ? quiet(() => error[key]) : peek(error, key);
      return typeof value === "string" ? whole(value) : isObject(value) || value === undefined ? "" : String(value);
    };
    const own = text("name") || "Error";
    const shown = className(error);
    const name = own === "Error" && shown && shown !== "Object" ? shown : own;
    return { name, message: text("message") };
  };

  function format(value, at, level) {
    switch (typeof value) {
      case "string":
        if (value.length > 10000 && level > 0) {
          const more = value.length - 10000;
          return quote(value.slice(0, 10000)) + `... ${more} more character${more > 1 ? "s" : ""}`;
        }
        return quote(value);
      case "number":
        return Object.is(value, -0) ? "-0" : String(value);
      case "bigint":
        return `${value}n`;
      case "symbol":
        return whole(symbol(value));
      case "object":
      case "function":
        return value === null ? "null" : formatObject(value, at, level);
      default:
        return String(value);
    }
  }

  const BOXES = { Number, String, Boolean, Symbol, BigInt };

  function formatObject(value, at, level) {
    const kind = kindOf(value);
    if (kind === "Proxy") return "[Proxy]";
    const custom = quiet(() => value[CUSTOM]);
    if (typeof custom === "function" && level < at.depth + 4) {
      const told = quiet(() => custom.call(value, at.depth - level, { depth: at.depth }, (v) => format(v, at, level + 1)));
      if (typeof told === "string") return whole(told);
      if (told !== undefined && told !== value) return format(told, at, level + 1);
    }
    if (at.seen.includes(value)) {
      at.circular.add(value);
      return "[Circular *1]";
    }
    const name = className(value);
    const isArray = Array.isArray(value);
    if (level > at.depth && kind !== "Error" && kind !== "Date" && kind !== "RegExp" && typeof value !== "function")
      return `[${isArray ? "Array" : (name ?? "Object: null prototype")}]`;
    at.seen.push(value);
    at.level = level;
    const parts = [];
    let [base, open, close, indexed] = describeKind(value, kind, name, isArray, at, level, parts);
    const keys = Reflect.ownKeys(value);
    let told = 0;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      const own = getOwnPropertyDescriptor(value, key);
      if (!own || !own.enumerable) continue;
      if (indexed && typeof key === "string" && /^\d+$/.test(key)) continue;
      if (kind === "Error" && (key === "stack" || key === "message")) continue;
      if (++told > 100) continue;
      const label = keyText(key);
      let shown;
      if (own.get || own.set) shown = own.get ? (own.set ? "[Getter/Setter]" : "[Getter]") : "[Setter]";
      else shown = format(own.value, at, level + 1);
      parts.push(`${label}: ${shown}`);
    }
    if (told > 100) parts.push(`... ${told - 100} more`);
    at.seen.pop();
    let result;
    if (!parts.length && base) result = base;
    else {
      const head = base ? base + " " : "";
      result = head + join(parts, open, close, isArray || indexed, level, at, head.length);
    }
    if (at.circular.has(value)) result = "<ref *1> " + result;
    return result;
  }

  // [text before the braces, brace, brace, whether indices are told already]
  function describeKind(value, kind, name, isArray, at, level, parts) {
    const sized = (plain, n) => `${name ?? plain}(${n}) `;
    const list = (length, one) => {
      const shown = Math.min(length, 100);
      for (let i = 0; i < shown; i++) parts.push(one(i));
      if (length > shown) parts.push(`... ${length - shown} more item${length - shown > 1 ? "s" : ""}`);
    };
    if (isArray) {
      let holes = 0;
      const flush = () => {
        if (holes) parts.push(`<${holes} empty item${holes > 1 ? "s" : ""}>`);
        holes = 0;
      };
      const { length } = value;
      let i = 0;
      for (; i < length && parts.length < 100; i++) {
        const own = getOwnPropertyDescriptor(value, i);
        if (!own) {
          if (++holes >= 100000) break;
          continue;
        }
        flush();
        parts.push("value" in own ? format(own.value, at, level + 1) : "[Getter]");
      }
      if (holes) holes += length - i - (i < length ? 1 : 0);
      flush();
      const more = length - i;
      if (more > 0 && parts.length >= 100) parts.push(`... ${more} more item${more > 1 ? "s" : ""}`);
      return ["", (name === "Array" ? "" : sized("Array", length)) + "[", "]", true];
    }
    if (typeof value === "function") {
      const isClass = quiet(() => Function.prototype.toString.call(value).startsWith("class"), false);
      const own = peek(value, "name");
      const label = typeof own === "string" && own ? whole(own) : "(anonymous)";
      if (!isClass) return [`[${name ?? "Function"}${own ? ": " : " "}${label}]`, "{", "}", false];
      const parent = getPrototypeOf(value);
      const from = typeof parent === "function" ? peek(parent, "name") : "";
      return [`[class ${label}${from ? ` extends ${whole(String(from))}` : ""}]`, "{", "}", false];
    }
    switch (kind) {
      case "Map": {
        const all = [];
        Map.prototype.forEach.call(value, (v, k) => all.push([k, v]));
        list(all.length, (i) => `${format(all[i][0], at, level + 1)} => ${format(all[i][1], at, level + 1)}`);
        return ["", sized("Map", all.length) + "{", "}", false];
      }
      case "Set": {
        const all = [];
        Set.prototype.forEach.call(value, (v) => all.push(v));
        list(all.length, (i) => format(all[i], at, level + 1));
        return ["", sized("Set", all.length) + "{", "}", false];
      }
      case "Date":
        return [quiet(() => Date.prototype.toISOString.call(value), "Invalid Date"), "{", "}", false];
      case "RegExp":
        return [whole(`/${quiet(() => SOURCE.call(value), "?")}/${quiet(() => FLAGS.call(value), "")}`), "{", "}", false];
      case "Error": {
        const { name: own, message } = headline(value);
        const lines = frames(value);
        const head = message ? `${own}: ${message}` : own;
        const cause = getOwnPropertyDescriptor(value, "cause");
        if (cause && !cause.enumerable && "value" in cause) parts.push(`[cause]: ${format(cause.value, at, level + 1)}`);
        const errors = getOwnPropertyDescriptor(value, "errors");
        if (errors && !errors.enumerable && "value" in errors) parts.push(`[errors]: ${format(errors.value, at, level + 1)}`);
        return [lines.length ? `${head}\n${lines.map(whole).join("\n")}` : `[${head}]`, "{", "}", false];
      }
      case "Promise": {
        const [state, result] = native.promise(value);
        parts.push(state === 0 ? "<pending>" : (state === 2 ? "<rejected> " : "") + format(result, at, level + 1));
        return ["", "Promise {", "}", false];
      }
      case "ArrayBuffer": {
        const bytes = new Uint8Array(quiet(() => ArrayBuffer.prototype.slice.call(value, 0, 50), 0));
        let hex = "";
        for (let i = 0; i < bytes.length; i++) hex += (i ? " " : "") + bytes[i].toString(16).padStart(2, "0");
        const length = quiet(() => LENGTH.call(value), 0);
        parts.push(`[bytes]: <${hex}${length > 50 ? ` ... ${length - 50} more bytes` : ""}>`, `byteLength: ${length}`);
        return ["", "ArrayBuffer {", "}", false];
      }
      case "WeakMap":
      case "WeakSet":
      case "WeakRef":
        return ["", `${name ?? kind} {`, "}", parts.push("<items unknown>") < 0];
      case "Generator":
        return ["", "Object [Generator] {", "}", false];
      case "Arguments":
        list(quiet(() => peek(value, "length") | 0, 0), (i) => format(peek(value, i), at, level + 1));
        return ["", "[Arguments] [", "]", true];
    }
    if (kind in BOXES) {
      const inner = quiet(() => BOXES[kind].prototype.valueOf.call(value));
      return [`[${kind}: ${format(inner, at, level + 1)}]`, "{", "}", kind === "String"];
    }
    const length = quiet(() => TYPED.call(value));
    if (length !== undefined && quiet(() => TAG.call(value))) {
      list(length, (i) => format(value[i], at, level + 1));
      return ["", sized(kind, length) + "[", "]", true];
    }
    const tag = quiet(() => peek(value, Symbol.toStringTag));
    const tagged = typeof tag === "string" && tag && tag !== name ? `[${whole(tag)}] ` : "";
    const plain = name === "Object" && !tagged;
    return ["", (plain ? "" : `${name ?? "[Object: null prototype]"} ${tagged}`) + "{", "}", false];
  }
  const typedPrototype = getPrototypeOf(Uint8Array.prototype);
  const TYPED = getOwnPropertyDescriptor(typedPrototype, "length").get;
  const TAG = getOwnPropertyDescriptor(typedPrototype, Symbol.toStringTag).get;
  const STACK = getOwnPropertyDescriptor(Error.prototype, "stack")?.get;
  const SOURCE = getOwnPropertyDescriptor(RegExp.prototype, "source").get;
  const FLAGS = getOwnPropertyDescriptor(RegExp.prototype, "flags").get;
  const LENGTH = getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get;

  function join(parts, open, close, isList, level, at, used) {
    if (!parts.length) return open + close;
    const total = parts.reduce((n, part) => n + part.length + 2, 0);
    const breaks = parts.some((part) => part.includes("\n"));
    if (!breaks && total + open.length + used <= WIDTH && at.level - level < 3) return `${open} ${parts.join(", ")} ${close}`;
    const pad = "  ";
    const indent = (text) => text.replaceAll("\n", "\n" + pad);
    if (isList && !breaks && parts.every((part) => part.length <= 16 || part.startsWith("... ")) && parts.length > 6) {
      const lines = [];
      let line = "";
      for (const part of parts) {
        if (line && line.length + part.length + 2 > WIDTH) {
          lines.push(line.trimEnd());
          line = "";
        }
        line += part + ", ";
      }
      lines.push(line.slice(0, -2));
      return `${open}\n${pad}${lines.join("\n" + pad)}\n${close}`;
    }
    return `${open}\n${pad}${parts.map(indent).join(",\n" + pad)}\n${close}`;
  }

  const inspect = (value, depth) =>
    quiet(() => format(value, { depth, level: 0, seen: [], circular: new Set() }, 0), "[cannot be shown]");

  // As console.log tells its arguments: `%s` and its like first, the rest behind it.
  function line(...values) {
    let text = "";
    let next = 0;
    if (typeof values[0] === "string") {
      next = 1;
      text = values[0].replace(/%[sdifjoOc%]/g, (mark) => {
        if (mark === "%%") return values.length > 1 ? "%" : "%%";
        if (next >= values.length) return mark;
        const value = values[next++];
        switch (mark) {
          case "%s":
            return typeof value === "string" ? value : isObject(value) ? inspect(value, 0) : format(value, {}, 0);
          case "%d":
            return typeof value === "bigint" ? `${value}n` : isObject(value) || typeof value === "symbol" ? "NaN" : String(Number(value));
          case "%i":
            return typeof value === "bigint" ? `${value}n` : isObject(value) || typeof value === "symbol" ? "NaN" : String(parseInt(value));
          case "%f":
            return isObject(value) || typeof value === "symbol" ? "NaN" : String(parseFloat(value));
          case "%j":
            return quiet(() => String(JSON.stringify(value)), "[Circular]");
          case "%c":
            return "";
          default:
            return inspect(value, 4);
        }
      });
    }
    for (let i = next; i < values.length; i++) {
      if (i) text += " ";
      text += typeof values[i] === "string" ? values[i] : inspect(values[i], 2);
    }
    return text;
  }

  // A copy that holds the same for every reader, or NONE.
  function exact(value, room, depth) {
    if (room.left < 0) return NONE;
    if (value === null || typeof value === "boolean" || typeof value === "number") room.left -= 2;
    if (value === null || typeof value === "boolean") return value;
    if (typeof value === "number") {
      const big = Number.isInteger(value) && !Number.isSafeInteger(value);
      return Number.isFinite(value) && !big && !Object.is(value, -0) ? value : NONE;
    }
    if (typeof value === "string") {
      room.left -= value.length;
      return room.left >= 0 && value.isWellFormed() ? value : NONE;
    }
    room.left -= 2;
    if (typeof value !== "object" || depth > 100 || room.left < 0) return NONE;
    const kind = native.classOf(value);
    const keys = kind === "Proxy" ? [] : Reflect.ownKeys(value);
    const proto = kind === "Proxy" ? null : getPrototypeOf(value);
    if (kind === "Array") {
      if (proto !== native.arrayPrototype || keys.length !== value.length + 1) return NONE;
      const copy = [];
      for (let i = 0; i < value.length; i++) {
        const own = getOwnPropertyDescriptor(value, i);
        const item = own && "value" in own ? exact(own.value, room, depth + 1) : NONE;
        if (item === NONE) return NONE;
        copy.push(item);
      }
      return copy;
    }
    if (kind !== "Object" || (proto !== null && proto !== native.objectPrototype && proto !== prototype)) return NONE;
    const copy = Object.create(null);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      const own = getOwnPropertyDescriptor(value, key);
      if (typeof key !== "string" || !key.isWellFormed() || !own.enumerable || !("value" in own)) return NONE;
      const item = exact(own.value, room, depth + 1);
      if (item === NONE) return NONE;
      room.left -= key.length;
      copy[key] = item;
    }
    return copy;
  }

  const bounded = (text) =>
    text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX).toWellFormed()}… ${text.length - TEXT_MAX} more characters`;

  // The head of a text, which is `key` of what is told; the rest is counted.
  const put = (told, key, text) => {
    const half = text.length > TEXT_MAX && /[\ud800-\udbff]/.test(text[TEXT_MAX - 1]) ? 1 : 0;
    const head = text.length > TEXT_MAX ? text.slice(0, TEXT_MAX - half) : text;
    if (head.length < text.length) told.cut = String(text.length - head.length);
    told[key] = head;
  };
  // JSON, where there is some; where it is too long, that is told.
  const putJson = (told, value) => {
    const room = { left: JSON_MAX };
    const copy = quiet(() => exact(value, room, 0), NONE);
    if (copy !== NONE) told.json = copy;
    else if (room.left < 0) told.cut ??= "";
  };

  // A value in all forms that it has. `raw`: it is such forms itself.
  function rich(value, raw) {
    const result = { text: "" };
    const forms = raw ? value : isObject(value) ? quiet(() => formsOf(value)) : undefined;
    if (isObject(forms)) {
      for (const key of quiet(() => Object.keys(forms), [])) {
        const form = quiet(() => forms[key]);
        if (form === undefined || form === null) continue;
        if (key === "text/plain") put(result, "text", whole(String(form)));
        else if (key === "application/json") putJson(result, form);
        else if (/^[\w.+-]+\/[\w.+-]+$/.test(key)) {
          const told = typeof form === "string" ? form : (encoded(form) ?? quiet(() => JSON.stringify(form)));
          if (typeof told === "string") result[key] = whole(told);
        }
      }
      if (!result.text && !raw) put(result, "text", inspect(value, 4));
      return result;
    }
    put(result, "text", inspect(value, 4));
    putJson(result, value);
    return result;
  }
  // Bytes in base64; nothing for what holds none.
  function encoded(value) {
    const kind = isObject(value) ? native.classOf(value) : "";
    const parts = VIEWS[kind === "DataView" ? kind : "typed"];
    const buffer = kind === "ArrayBuffer" ? value : quiet(() => parts.buffer.call(value));
    if (!buffer) return undefined;
    const bytes = buffer === value ? new Uint8Array(value) : new Uint8Array(buffer, parts.byteOffset.call(value), parts.byteLength.call(value));
    const { length } = bytes;
    let text = "";
    for (let i = 0; i < length; i += 3) {
      const n = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
      text += BASE64[n >> 18] + BASE64[(n >> 12) & 63];
      text += (i + 1 < length ? BASE64[(n >> 6) & 63] : "=") + (i + 2 < length ? BASE64[n & 63] : "=");
    }
    return text;
  }
  const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const viewOf = (owner) => {
    const get = (key) => getOwnPropertyDescriptor(owner, key).get;
    return { buffer: get("buffer"), byteOffset: get("byteOffset"), byteLength: get("byteLength") };
  };
  const VIEWS = { typed: viewOf(typedPrototype), DataView: viewOf(DataView.prototype) };

  function formsOf(value) {
    const give = value[DISPLAY];
    return typeof give === "function" ? give.call(value) : undefined;
  }

  const cwd = () => quiet(() => native.cwd(), "/workspace");

  function settled(value) {
    if (!isObject(value) || native.classOf(value) !== "Promise") return value;
    const [state, result] = native.promise(value);
    return state === 1 ? result : value;
  }

  function lineOf(lines, file) {
    for (const line of lines) {
      const at = line.indexOf(file + ":");
      if (at >= 0) return parseInt(line.slice(at + file.length + 1)) || null;
    }
    return null;
  }

  return {
    format: line,
    inspect: (value, depth) => inspect(value, typeof depth === "number" ? depth : 2),
    emit: (value, raw) => native.emit(JSON.stringify(rich(value, raw))),
    value(value, file) {
      value = settled(value);
      const result = value === undefined ? null : rich(value, false);
      return JSON.stringify({ cwd: cwd(), result, error: null });
    },
    error(error, file, leaving, code) {
      let told;
      if (leaving) {
        told = { name: "SystemExit", message: `process.exit(${code})`, traceback: [] };
      } else if (isObject(error) && kindOf(error) === "Error") {
        const lines = frames(error).map((line) => whole(line));
        const { name, message } = headline(error);
        const traceback = [message ? `${name}: ${message}` : name, ...lines];
        let cause = peek(error, "cause");
        for (let i = 0; i < 8 && isObject(cause) && kindOf(cause) === "Error"; i++) {
          const { name, message } = headline(cause);
          traceback.push(`caused by ${name}: ${message}`, ...frames(cause).map((line) => whole(line)));
          cause = peek(cause, "cause");
        }
        told = { name, traceback: traceback.map(bounded) };
        put(told, "message", message);
        const line = lineOf(lines, file);
        if (line) told.lineNumber = line;
      } else {
        const text = typeof error === "string" ? whole(error) : inspect(error, 2);
        told = { name: "Error", traceback: [`Uncaught ${bounded(text)}`] };
        put(told, "message", text);
      }
      return JSON.stringify({ cwd: cwd(), result: null, error: told });
    },
  };
})
