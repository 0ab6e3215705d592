// The part of `fs` that works on open files.
(function (native, shared) {
  "use strict";
  const [READ, WRITE, BOTH, CREATE, NEW, EMPTY, APPEND] = [0, 1, 2, 64, 128, 512, 1024];
  const FLAGS = { __proto__: null, r: READ, rs: READ, sr: READ, "r+": BOTH, "rs+": BOTH, "sr+": BOTH };
  for (const [letter, how] of [["w", EMPTY], ["a", APPEND]]) {
    for (const [plus, access] of [["", WRITE], ["+", BOTH]]) {
      FLAGS[letter + plus] = access | CREATE | how;
      for (const x of [letter + "x", "x" + letter]) FLAGS[x + plus] = access | CREATE | how | NEW;
      if (letter === "a") for (const s of ["as", "sa"]) FLAGS[s + plus] = access | CREATE | how;
    }
  }
  const PIECE = 64 << 10;
  const refused = (code, message, Type = TypeError) => Object.assign(new Type(message), { code });
  const outOfRange = (what, value) => refused("ERR_OUT_OF_RANGE", `The value of "${what}" is out of range: ${String(value)}`, RangeError);

  const descriptorOf = (fd) => {
    if (typeof fd !== "number") throw refused("ERR_INVALID_ARG_TYPE", "The descriptor must be a number");
    if (!Number.isInteger(fd) || fd < 0 || fd > 0x7fffffff) throw outOfRange("fd", fd);
    return fd;
  };
  const flagsOf = (flags) => {
    if (flags === undefined || flags === null) return READ;
    const number = typeof flags === "number" ? flags : FLAGS[flags];
    if (!Number.isInteger(number)) throw refused("ERR_INVALID_ARG_VALUE", `There are no flags ${String(flags)}`);
    return number;
  };
  const wholeOf = (what, value, otherwise, most = Number.MAX_SAFE_INTEGER) => {
    if (value === undefined || value === null) return otherwise;
    const number = typeof value === "bigint" ? Number(value) : value;
    if (typeof number !== "number") throw refused("ERR_INVALID_ARG_TYPE", `The "${what}" must be a number`);
    if (!Number.isInteger(number) || number < 0 || number > most) throw outOfRange(what, value);
    return number;
  };
  const placeOf = (position) => (position === -1 || position === -1n ? -1 : wholeOf("position", position, -1));
  const viewOf = (data) => {
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    throw refused("ERR_INVALID_ARG_TYPE", "The buffer must be one, or a view of one");
  };

  shared.descriptors = ({ pathOf, bytesOf, encodingOf, Stats }) => {
    const transfer = (call, fd, buffer, offset, length, position) => {
      if (offset !== null && typeof offset === "object") ({ offset, length, position } = offset);
      const view = viewOf(buffer);
      offset = wholeOf("offset", offset, 0, view.length);
      length = wholeOf("length", length, view.length - offset, view.length - offset);
      return call(descriptorOf(fd), view, offset, length, placeOf(position));
    };
    const openSync = (path, flags) => native.open(pathOf(path), flagsOf(flags));
    const closeSync = (fd) => void native.close(descriptorOf(fd));
    const readSync = (fd, ...values) => transfer(native.read, fd, ...values);
    const textBytes = (data, encoding) => {
      const bytes = bytesOf(data, encoding);
      return typeof bytes === "string" ? Buffer.from(bytes) : bytes;
    };
    // Of text the position comes first, and its encoding then.
    const writeSync = (fd, data, ...values) =>
      typeof data === "string"
        ? transfer(native.writeAt, fd, textBytes(data, values[1]), 0, undefined, values[0])
        : transfer(native.writeAt, fd, data, ...values);
    const fstatSync = (fd) => new Stats(native.fstat(descriptorOf(fd)));
    const ftruncateSync = (fd, length) => void native.ftruncate(descriptorOf(fd), wholeOf("len", length, 0));
    const fsyncSync = (fd) => void native.fsync(descriptorOf(fd));

    // From where the file stands to its end.
    const readAll = (fd) => {
      const pieces = [];
      for (;;) {
        const piece = Buffer.alloc(PIECE);
        const length = readSync(fd, piece);
        if (length === 0) return Buffer.concat(pieces);
        pieces.push(piece.subarray(0, length));
      }
    };
    const writeAll = (fd, data, options) => {
      const bytes = viewOf(textBytes(data, options));
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    };

    class FileHandle {
      #fd;
      constructor(fd) {
        this.#fd = fd;
      }
      get fd() {
        return this.#fd;
      }
      async read(buffer, ...values) {
        if (buffer === undefined || (!ArrayBuffer.isView(buffer) && !(buffer instanceof ArrayBuffer))) {
          const { buffer: given = Buffer.alloc(16384), offset, length, position } = buffer ?? {};
          [buffer, ...values] = [given, offset, length, position];
        }
        return { bytesRead: readSync(this.#fd, buffer, ...values), buffer };
      }
      async write(data, ...values) {
        return { bytesWritten: writeSync(this.#fd, data, ...values), buffer: data };
      }
      async readFile(options) {
        const bytes = readAll(this.#fd);
        const encoding = encodingOf(options);
        return encoding && encoding !== "buffer" ? bytes.toString(encoding) : bytes;
      }
      async writeFile(data, options) {
        writeAll(this.#fd, data, options);
      }
      async appendFile(data, options) {
        writeAll(this.#fd, data, options);
      }
      async stat() {
        return fstatSync(this.#fd);
      }
      async truncate(length) {
        ftruncateSync(this.#fd, length);
      }
      async sync() {
        fsyncSync(this.#fd);
      }
      async datasync() {
        fsyncSync(this.#fd);
      }
      // Closed twice it is closed.
      async close() {
        const fd = this.#fd;
        this.#fd = -1;
        if (fd >= 0) closeSync(fd);
      }
    }
    if (Symbol.asyncDispose) FileHandle.prototype[Symbol.asyncDispose] = FileHandle.prototype.close;

    const sync = { openSync, closeSync, readSync, writeSync, fstatSync, ftruncateSync, fsyncSync, fdatasyncSync: fsyncSync };
    // What was read into or written from comes with how much.
    const both = (act) => (fd, buffer, ...values) => {
      const done = values.pop();
      (async () => act(fd, buffer, ...values))().then((count) => queueMicrotask(() => done(null, count, buffer)), (error) => queueMicrotask(() => done(error)));
    };
    const withCallbacks = { read: both(readSync), write: both(writeSync), close: (fd, done = () => {}) => both(closeSync)(fd, undefined, done) };
    return { FileHandle, sync, withCallbacks, readAll, writeAll };
  };
})
