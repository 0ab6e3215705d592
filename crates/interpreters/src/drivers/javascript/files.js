// `fs` and `path`, as far as Node's go without streams.
(function (native, shared) {
  "use strict";
  const { modules, expose } = shared;
  const textOf = (bytes) => {
    try {
      return native.decode(bytes.buffer, bytes.byteOffset, bytes.length, true);
    } catch {
      return undefined;
    }
  };
  const shown = (path) => (typeof path === "string" ? path : Buffer.from(path).toString());
  // A name, or a path of names, below a directory.
  const below = (dir, name) => {
    if (typeof dir === "string" && typeof name === "string") return `${dir}/${name}`;
    return new Uint8Array(Buffer.concat([Buffer.from(dir), Buffer.from("/"), Buffer.from(name)]));
  };
  const pathOf = (path) => {
    if (typeof path === "string") return path;
    if (path instanceof URL && path.protocol === "file:") return decodeURIComponent(path.pathname);
    // Text where it has one: names that are no UTF-8 stay bytes.
    if (path instanceof Uint8Array) return textOf(path) ?? new Uint8Array(path);
    if (path === 0) return "/dev/stdin";
    throw Object.assign(new TypeError("The path must be a string"), { code: "ERR_INVALID_ARG_TYPE" });
  };
  const encodingOf = (options) => (typeof options === "string" ? options : options?.encoding);
  const bytesOf = (data, options) => {
    if (typeof data === "string") {
      const encoding = encodingOf(options);
      return !encoding || /^utf-?8$/i.test(encoding) ? data.toWellFormed() : Buffer.from(data, encoding);
    }
    if (data instanceof ArrayBuffer || data instanceof Uint8Array) return data;
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw Object.assign(new TypeError("The data must be a string, a buffer or a view of one"), { code: "ERR_INVALID_ARG_TYPE" });
  };
  const missing = (error) => error.code === "ENOENT" || error.code === "ENOTDIR";

  class Dirent {
    #kind;
    constructor(name, parentPath, kind) {
      this.name = name;
      this.parentPath = parentPath;
      this.#kind = kind;
    }
    isDirectory() {
      return this.#kind === "d";
    }
    isFile() {
      return this.#kind === "f";
    }
    isSymbolicLink() {
      return this.#kind === "l";
    }
  }
  class Stats {
    #kind;
    constructor([kind, size, mtimeMs, atimeMs, ctimeMs, mode, ino, nlink]) {
      this.#kind = kind;
      Object.assign(this, { size, mode, ino, nlink, mtimeMs, atimeMs, ctimeMs });
      for (const key of ["mtime", "atime", "ctime"]) this[key] = new Date(this[key + "Ms"]);
    }
    isDirectory() {
      return this.#kind === "d";
    }
    isFile() {
      return this.#kind === "f";
    }
    isSymbolicLink() {
      return this.#kind === "l";
    }
  }

  const stat = (follow) => (path, options) => {
    try {
      return new Stats(native.stat(pathOf(path), follow));
    } catch (error) {
      if (options?.throwIfNoEntry === false && missing(error)) return undefined;
      throw error;
    }
  };
  const statSync = stat(true);
  const lstatSync = stat(false);

  const { FileHandle, sync, withCallbacks, readAll, writeAll } = shared.descriptors({ pathOf, bytesOf, encodingOf, Stats });
  const opened = (path) => (path instanceof FileHandle ? path.fd : path);
  const readFileSync = (path, options) => {
    path = opened(path);
    const input = path === 0 || path === "/dev/stdin";
    const bytes = typeof path === "number" && !input ? readAll(path) : Buffer.from(input ? native.readInput() : native.readFile(pathOf(path)));
    const encoding = encodingOf(options);
    return encoding && encoding !== "buffer" ? bytes.toString(encoding) : bytes;
  };
  const write = (mode) => (path, data, options) => {
    path = opened(path);
    if (typeof path === "number") return writeAll(path, data, options);
    const flag = (typeof options === "object" && options?.flag) || mode;
    native.writeFile(pathOf(path), bytesOf(data, options), flag);
  };
  const writeFileSync = write("w");

  // [name, kind] of all in a directory; a name that is no UTF-8 is bytes.
  const entriesOf = (dir) => {
    const all = native.list(dir);
    const pairs = [];
    for (let i = 0; i < all.length; i += 2) pairs.push([typeof all[i] === "string" ? all[i] : new Uint8Array(all[i]), all[i + 1]]);
    const texts = new Map(pairs.map(([name]) => [name, shown(name)]));
    return pairs.sort(([a], [b]) => (texts.get(a) < texts.get(b) ? -1 : texts.get(a) > texts.get(b) ? 1 : 0));
  };
  function readdirSync(path, options) {
    const encoding = encodingOf(options);
    const told = encoding === "buffer" ? (name) => Buffer.from(name) : (name) => shown(name);
    const found = [];
    const walk = (dir, prefix) => {
      for (const [name, kind] of entriesOf(dir)) {
        const whole = prefix === undefined ? name : below(prefix, name);
        found.push(options?.withFileTypes ? new Dirent(told(name), shown(dir), kind) : told(whole));
        if (options?.recursive && kind === "d") walk(below(dir, name), whole);
      }
    };
    walk(pathOf(path));
    return found;
  }
  const dirOf = (path) => {
    if (typeof path === "string") return modules.path.dirname(path);
    const end = path.findLastIndex((byte) => byte !== 47);
    const at = path.lastIndexOf(47, end);
    return at < 0 ? "." : at === 0 ? "/" : pathOf(path.subarray(0, at));
  };
  function mkdirSync(path, options) {
    path = pathOf(path);
    if (!options?.recursive) return void native.mkdir(path);
    let first;
    const make = (path) => {
      try {
        native.mkdir(path);
        first = path;
      } catch (error) {
        if (error.code === "ENOENT") {
          const parent = dirOf(path);
          if (parent === path) throw error;
          make(parent);
          native.mkdir(path);
        } else if (error.code !== "EEXIST" || !statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
      }
    };
    make(path);
    return first === undefined ? first : shown(first);
  }
  function rmSync(path, options) {
    path = pathOf(path);
    let about;
    try {
      about = lstatSync(path);
    } catch (error) {
      if (options?.force && missing(error)) return;
      throw error;
    }
    if (!about.isDirectory()) return native.unlink(path);
    if (!options?.recursive) {
      const error = new Error(`Path is a directory: rm returned EISDIR (is a directory) ${shown(path)}`);
      throw Object.assign(error, { code: "ERR_FS_EISDIR", errno: -21, syscall: "rm", path: shown(path) });
    }
    for (const [name] of entriesOf(path)) rmSync(below(path, name), options);
    native.rmdir(path);
  }
  function copyFileSync(from, to) {
    native.writeFile(pathOf(to), native.readFile(pathOf(from)), "w");
  }
  // No device is told here: /tmp may have the same inode numbers, but not the same times with them.
  const isSame = (a, b) => a.ino === b.ino && a.ctimeMs === b.ctimeMs;
  // Whether a path is, or will be, this directory or below it, by whatever links.
  const isWithin = (path, dir) => {
    let at;
    while (!(at = statSync(path, { throwIfNoEntry: false }))) {
      const parent = dirOf(path);
      if (parent === path) return false;
      path = parent;
    }
    while (!isSame(at, dir)) {
      const last = at;
      path = below(path, "..");
      try {
        at = statSync(path);
      } catch {
        return false;
      }
      if (isSame(at, last)) return false;
    }
    return true;
  };
  function cpSync(from, to, options) {
    (from = pathOf(from)), (to = pathOf(to));
    const about = statSync(from);
    if (!about.isDirectory()) return copyFileSync(from, to);
    if (!options?.recursive) throw Object.assign(new Error(`Recursive option not enabled, cannot copy a directory: ${shown(from)}`), { code: "ERR_FS_EISDIR" });
    if (isWithin(to, about)) {
      const error = new Error(`Invalid src or dest: cp returned EINVAL (cannot copy ${shown(from)} to itself or below itself) ${shown(to)}`);
      throw Object.assign(error, { code: "ERR_FS_CP_EINVAL", errno: -22, syscall: "cp", path: shown(to) });
    }
    copyDirectory(from, to, options);
  }
  function copyDirectory(from, to, options) {
    // Listed first: what is made from here on is not copied again.
    const entries = entriesOf(from);
    mkdirSync(to, { recursive: true });
    // A directory in one that `to` is not within needs no look of its own; what a link leads to does.
    for (const [name, kind] of entries) (kind === "d" ? copyDirectory : cpSync)(below(from, name), below(to, name), options);
  }
  const fs = {
    ...sync,
    readFileSync,
    writeFileSync,
    appendFileSync: write("a"),
    readdirSync,
    mkdirSync,
    rmSync,
    rmdirSync: (path, options) => (options?.recursive ? rmSync(path, options) : native.rmdir(pathOf(path))),
    unlinkSync: (path) => native.unlink(pathOf(path)),
    renameSync: (from, to) => native.rename(pathOf(from), pathOf(to)),
    symlinkSync: (target, path) => native.symlink(pathOf(target), pathOf(path)),
    copyFileSync,
    cpSync,
    existsSync(path) {
      try {
        native.stat(pathOf(path), true);
        return true;
      } catch {
        return false;
      }
    },
    accessSync: (path) => void native.stat(pathOf(path), true),
    statSync,
    lstatSync,
    constants: {
      F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024,
      O_DIRECTORY: 65536,
    },
  };
  const promises = {};
  for (const name of Object.keys(fs)) {
    if (!name.endsWith("Sync") || name === "existsSync") continue;
    const act = fs[name];
    const plain = name.slice(0, -4);
    const later = async (...values) => act(...values);
    promises[plain] = later;
    fs[plain] = (...values) => {
      const done = values.pop();
      later(...values).then((value) => queueMicrotask(() => done(null, value)), (error) => queueMicrotask(() => done(error)));
    };
  }
  for (const name of Object.keys(sync)) delete promises[name.slice(0, -4)];
  promises.open = async (...values) => new FileHandle(sync.openSync(...values));
  Object.assign(fs, withCallbacks, { promises });

  const normal = (path) => {
    const parts = [];
    for (const part of path.split("/")) {
      if (part === "" || part === ".") continue;
      if (part !== "..") parts.push(part);
      else if (parts.length && parts.at(-1) !== "..") parts.pop();
      else if (!path.startsWith("/")) parts.push("..");
    }
    const text = parts.join("/");
    return path.startsWith("/") ? "/" + text : text || ".";
  };
  const path = {
    sep: "/",
    delimiter: ":",
    normalize: (path) => normal(path) + (path.length > 1 && path.endsWith("/") && normal(path) !== "/" ? "/" : ""),
    join: (...parts) => path.normalize(parts.filter((part) => part !== "").join("/") || "."),
    resolve(...parts) {
      let whole = "";
      for (const part of parts.reverse()) {
        whole = whole ? `${part}/${whole}` : part;
        if (whole.startsWith("/")) return normal(whole);
      }
      return normal(`${native.cwd()}/${whole}`);
    },
    isAbsolute: (path) => path.startsWith("/"),
    dirname(path) {
      const bare = path.replace(/\/+$/, "");
      const at = bare.lastIndexOf("/");
      return at > 0 ? bare.slice(0, at) : path.startsWith("/") ? "/" : ".";
    },
    basename(path, suffix = "") {
      const name = path.replace(/\/+$/, "").split("/").at(-1);
      return suffix && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
    },
    extname(name) {
      const base = path.basename(name);
      const at = base.lastIndexOf(".");
      return at > 0 ? base.slice(at) : "";
    },
    relative(from, to) {
      const a = path.resolve(from).split("/").filter(Boolean);
      const b = path.resolve(to).split("/").filter(Boolean);
      let same = 0;
      while (same < a.length && a[same] === b[same]) same++;
      return [...a.slice(same).fill(".."), ...b.slice(same)].join("/");
    },
    parse(name) {
      const base = path.basename(name);
      const ext = path.extname(name);
      const root = name.startsWith("/") ? "/" : "";
      const dir = path.dirname(name);
      return { root, dir: dir === "." && !name.startsWith(".") ? "" : dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
    },
  };
  path.posix = path;

  Object.assign(modules, { fs, "fs/promises": promises, path });
  const loaded = new Map();
  const makeRequire = (dir) => {
    const require = (name) => {
      const bare = name.startsWith("node:") ? name.slice(5) : name;
      if (Object.hasOwn(modules, bare)) return modules[bare];
      if (!/^\.{0,2}\//.test(name)) throw Object.assign(new Error(`Cannot find module '${name}'`), { code: "MODULE_NOT_FOUND" });
      const start = path.resolve(dir ?? native.cwd(), name);
      const file = [start, start + ".js", start + ".json", start + "/index.js"].find((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
      if (!file) throw Object.assign(new Error(`Cannot find module '${name}'`), { code: "MODULE_NOT_FOUND" });
      if (loaded.has(file)) return loaded.get(file).exports;
      const text = readFileSync(file, "utf8");
      const module = { exports: {}, filename: file, id: file };
      loaded.set(file, module);
      try {
        if (file.endsWith(".json")) module.exports = JSON.parse(text);
        else native.script(`(function (exports, require, module, __filename, __dirname) {${text}\n})`, file)(module.exports, makeRequire(path.dirname(file)), module, file, path.dirname(file));
      } catch (error) {
        loaded.delete(file);
        throw error;
      }
      return module.exports;
    };
    return require;
  };
  expose({ fs, require: makeRequire() });
})
