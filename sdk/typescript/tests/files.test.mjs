// Files of a real server's workspaces.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import { getSandbox } from "sandkeep";
import { Server } from "./support/server.mjs";

let server;
const ends = [];
before(async () => { server = await Server.start({ after: (end) => ends.push(end) }); });
after(async () => { for (const end of ends) await end(); });

let count = 0;
const fresh = () => getSandbox(server.url, `f${(count += 1)}`);

const near = (timestamp) => assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000, timestamp);

test("text goes in and comes out as it is", async () => {
  const sandbox = fresh();
  for (const text of ["hello\n", "", "é€😀\u0000\r\n", "\ufeffmark"]) {
    const written = await sandbox.writeFile("/workspace/a.txt", text);
    near(written.timestamp);
    const size = new TextEncoder().encode(text).length;
    assert.deepEqual([written.success, written.path, written.size], [true, "/workspace/a.txt", size]);
    const read = await sandbox.readFile("/workspace/a.txt");
    near(read.timestamp);
    assert.deepEqual([read.success, read.path, read.content, read.encoding, read.size], [true, "/workspace/a.txt", text, "utf-8", size]);
    assert.equal(read.isBinary, text.includes("\u0000"));
    assert.equal((await sandbox.readFile("a.txt", { encoding: "utf8" })).content, text);
  }
});

test("bytes go in as bytes, as base64 and as a stream, and come out as each", async () => {
  const sandbox = fresh();
  const bytes = Uint8Array.from({ length: 1000 }, (_, i) => i * 7);
  const base64 = Buffer.from(bytes).toString("base64");
  await sandbox.writeFile("a", bytes);
  await sandbox.writeFile("b", base64, { encoding: "base64" });
  await sandbox.writeFile("c", new Blob([bytes]).stream());
  await sandbox.writeFile("d", bytes.subarray(3, 10));
  for (const path of ["a", "b", "c"]) {
    const read = await sandbox.readFile(path, { encoding: "base64" });
    assert.deepEqual([read.content, read.encoding, read.isBinary, read.size], [base64, "base64", true, 1000]);
  }
  assert.equal((await sandbox.readFile("d", { encoding: "base64" })).content, Buffer.from(bytes.subarray(3, 10)).toString("base64"));
  // Without a wish nothing is lost; who asks for text gets text.
  const plain = await sandbox.readFile("a");
  assert.deepEqual([plain.content, plain.encoding], [base64, "base64"]);
  const lossy = await sandbox.readFile("a", { encoding: "utf-8" });
  assert.deepEqual([lossy.encoding, lossy.isBinary], ["utf-8", true]);
  assert.ok(lossy.content.includes("\ufffd"));
  const stream = await sandbox.readFile("a", { encoding: "none" });
  assert.deepEqual([stream.success, stream.path, stream.size], [true, "/workspace/a", 1000]);
  assert.deepEqual(new Uint8Array(await new Response(stream.content).arrayBuffer()), bytes);
});

test("a file's type follows its name, else what is in it", async () => {
  const sandbox = fresh();
  const binary = new Uint8Array([0, 255]);
  const files = [["a.JSON", "{}", "application/json"], ["b.png", binary, "image/png"], ["c", "text", "text/plain"], ["d.", binary, "application/octet-stream"]];
  for (const [path, content, type] of files) {
    await sandbox.writeFile(path, content);
    assert.equal((await sandbox.readFile(path)).mimeType, type);
  }
  const stream = await sandbox.readFile("c", { encoding: "none" });
  assert.equal(stream.mimeType, "application/octet-stream");
  await stream.content.cancel();
});

test("a large stream is neither held in memory nor changed", async () => {
  const sandbox = fresh();
  const [piece, pieces] = [new Uint8Array(1 << 20).fill(0x61), 48];
  const before = createHash("sha256");
  let made = 0;
  const source = new ReadableStream({
    pull(controller) {
      if (made === pieces) return controller.close();
      piece[0] = made++;
      before.update(piece);
      controller.enqueue(piece.slice());
    },
  });
  const written = await sandbox.writeFile("large", source);
  assert.equal(written.size, pieces << 20);
  const { content, size } = await sandbox.readFile("large", { encoding: "none" });
  assert.equal(size, pieces << 20);
  const back = createHash("sha256");
  for await (const part of content) back.update(part);
  assert.equal(back.digest("hex"), before.digest("hex"));
});

test("an upload that breaks off leaves what was there", async () => {
  const sandbox = fresh();
  await sandbox.writeFile("a", "old");
  let step = 0;
  const broken = new ReadableStream({
    pull(controller) {
      if (step++ < 3) controller.enqueue(new Uint8Array(100_000));
      else controller.error(new RangeError("the source broke"));
    },
  });
  await assert.rejects(sandbox.writeFile("a", broken), { name: "RangeError", message: "the source broke" });
  const texts = new ReadableStream({ start(controller) { controller.enqueue("text"); controller.close(); } });
  await assert.rejects(sandbox.writeFile("a", texts), { name: "TypeError" });
  assert.equal((await sandbox.readFile("a")).content, "old");
  assert.equal((await sandbox.listFiles("/workspace", { includeHidden: true })).count, 1);
});

test("directories are made, listed and deleted", async () => {
  const sandbox = fresh();
  const made = await sandbox.mkdir("/workspace/a/b/c", { recursive: true });
  near(made.timestamp);
  assert.deepEqual([made.success, made.path, made.recursive], [true, "/workspace/a/b/c", true]);
  await sandbox.mkdir("a", { recursive: true });
  await sandbox.writeFile("a/b/one.txt", "1");
  await sandbox.writeFile("a/.hidden", "22");
  const list = await sandbox.listFiles("/workspace/a");
  assert.deepEqual([list.success, list.path, list.count], [true, "/workspace/a", 1]);
  const names = async (path, options) => (await sandbox.listFiles(path, options)).files.map((f) => f.relativePath);
  assert.deepEqual(await names("a", { includeHidden: true }), [".hidden", "b"]);
  assert.deepEqual(await names("a", { recursive: true }), ["b", "b/c", "b/one.txt"]);
  assert.deepEqual(await names("/workspace", { recursive: true, includeHidden: true }), ["a", "a/.hidden", "a/b", "a/b/c", "a/b/one.txt"]);
  const [file] = (await sandbox.listFiles("a/b")).files.filter((f) => f.type === "file");
  const { modifiedAt, mode, ...rest } = file;
  near(modifiedAt);
  assert.match(mode, /^-rw-/);
  assert.deepEqual(rest, {
    name: "one.txt",
    absolutePath: "/workspace/a/b/one.txt",
    relativePath: "one.txt",
    type: "file",
    size: 1,
    permissions: { readable: true, writable: true, executable: false },
  });
  assert.equal((await sandbox.stat("a/b")).type, "directory");
  const info = await sandbox.getInfo();
  assert.deepEqual(info.workspace, { files: 5, bytes: 3 });
  await assert.rejects(sandbox.deleteFile("a"), { name: "FileSystemError", code: "IS_DIRECTORY", operation: "file.delete" });
  const gone = await sandbox.deleteFile("a", { recursive: true });
  assert.deepEqual([gone.success, gone.path], [true, "/workspace/a"]);
  await assert.rejects(sandbox.deleteFile("a"), { name: "FileNotFoundError" });
  await sandbox.deleteFile("a", { force: true });
});

test("files are moved, renamed, copied and looked for", async () => {
  const sandbox = fresh();
  await sandbox.writeFile("a", "1");
  const renamed = await sandbox.renameFile("/workspace/a", "/workspace/b");
  assert.deepEqual([renamed.success, renamed.path, renamed.newPath], [true, "/workspace/a", "/workspace/b"]);
  await sandbox.mkdir("dir");
  const moved = await sandbox.moveFile("b", "dir/c");
  assert.deepEqual([moved.path, moved.newPath], ["/workspace/b", "/workspace/dir/c"]);
  await sandbox.copyFile("dir", "other", { recursive: true });
  assert.equal((await sandbox.readFile("other/c")).content, "1");
  const exists = await sandbox.exists("dir/c");
  assert.deepEqual([exists.success, exists.path, exists.exists], [true, "/workspace/dir/c", true]);
  assert.equal((await sandbox.exists("a")).exists, false);
  assert.equal((await sandbox.exists("a/b/c")).exists, false);
});

test("each failure has its class and its errno", async () => {
  const sandbox = fresh();
  await sandbox.writeFile("file", "1");
  await sandbox.mkdir("dir/full", { recursive: true });
  const fails = async (call, name, code, errno, httpStatus) => {
    await assert.rejects(call, (error) => {
      assert.deepEqual([error.name, error.code, error.context.errno, error.httpStatus], [name, code, errno, httpStatus]);
      return true;
    });
  };
  await fails(sandbox.readFile("none"), "FileNotFoundError", "FILE_NOT_FOUND", "ENOENT", 404);
  await fails(sandbox.readFile("none", { encoding: "none" }), "FileNotFoundError", "FILE_NOT_FOUND", "ENOENT", 404);
  await fails(sandbox.writeFile("none/a", "1"), "FileNotFoundError", "FILE_NOT_FOUND", "ENOENT", 404);
  await fails(sandbox.readFile("dir"), "FileSystemError", "IS_DIRECTORY", "EISDIR", 400);
  await fails(sandbox.writeFile("dir", "1"), "FileSystemError", "IS_DIRECTORY", "EISDIR", 400);
  await fails(sandbox.writeFile("file/a", "1"), "FileSystemError", "NOT_DIRECTORY", "ENOTDIR", 400);
  await fails(sandbox.listFiles("file"), "FileSystemError", "NOT_DIRECTORY", "ENOTDIR", 400);
  await fails(sandbox.moveFile("file", "none/a"), "FileNotFoundError", "FILE_NOT_FOUND", "ENOENT", 404);
  await fails(sandbox.moveFile("dir", "dir/full/a"), "FileSystemError", "FILESYSTEM_ERROR", "EINVAL", 500);
  await sandbox.mkdir("other");
  await fails(sandbox.moveFile("other", "dir"), "FileSystemError", "FILESYSTEM_ERROR", "ENOTEMPTY", 500);
  await fails(sandbox.mkdir("none/a"), "FileNotFoundError", "FILE_NOT_FOUND", "ENOENT", 404);
  await fails(sandbox.mkdir("dir"), "FileExistsError", "FILE_EXISTS", "EEXIST", 409);
  await fails(sandbox.writeFile("/workspace", "1"), "FileSystemError", "IS_DIRECTORY", "EISDIR", 400);
  await fails(sandbox.readFile("/workspace"), "FileSystemError", "IS_DIRECTORY", "EISDIR", 400);
  await fails(sandbox.deleteFile("/workspace", { recursive: true }), "PermissionDeniedError", "PERMISSION_DENIED", "EACCES", 403);
  await sandbox.exec(["ln", "-s", "/etc", "/workspace/out"]);
  await fails(sandbox.readFile("out/passwd"), "PermissionDeniedError", "PERMISSION_DENIED", "EACCES", 403);
});

test("a file that is too large is refused while it is sent, and the answer is heard", async () => {
  const sandbox = fresh();
  const piece = new Uint8Array(1 << 20);
  let made = 0;
  const endless = new ReadableStream({ pull(controller) { made += 1; controller.enqueue(piece); } });
  await assert.rejects(sandbox.writeFile("large", endless), (error) => {
    assert.deepEqual([error.name, error.code, error.httpStatus], ["FileTooLargeError", "FILE_TOO_LARGE", 413]);
    assert.equal(error.context.maxSize, 64 << 20);
    return true;
  });
  assert.ok(made < 1000, `${made} MiB were made for a file that may have 64`);
  for (const mib of [65, 200]) {
    await assert.rejects(sandbox.writeFile("large", new Uint8Array(mib << 20)), { name: "FileTooLargeError" });
  }
  assert.equal((await sandbox.exists("large")).exists, false);
});

test("names that need care survive, and a command sees the same files", async () => {
  const sandbox = fresh();
  const names = ["with space", "a%2Fb", "q?x=1#y", "new\nline", "é€😀", "-rf", "...", "a\\b", "+", "workspace", "%", "x".repeat(255)];
  for (const name of names) {
    await sandbox.writeFile(`/workspace/${name}`, name);
    assert.equal((await sandbox.readFile(`/workspace/./x/../${name}`)).content, name);
    const seen = await sandbox.exec(["cat", `/workspace/${name}`]);
    assert.equal(seen.stdout, name);
  }
  await sandbox.deleteFile("workspace");
  await sandbox.mkdir("workspace");
  await sandbox.writeFile("/workspace/workspace/inner", "inner");
  assert.equal((await sandbox.readFile("workspace/inner")).content, "inner");
  assert.equal((await sandbox.exec(["cat", "/workspace/workspace/inner"])).stdout, "inner");
  await sandbox.exec(["sh", "-c", "printf command > /workspace/from"]);
  assert.equal((await sandbox.readFile("from")).content, "command");
});

test("names that are no UTF-8 are given and told as bytes", async () => {
  const sandbox = fresh();
  const bytes = (...parts) => new Uint8Array(Buffer.concat(parts.map((part) => Buffer.from(part))));
  const odd = bytes("a%", [0xff, 0x80], "/?#b.png");
  assert.equal((await sandbox.mkdir(bytes("/workspace/./a%", [0xff, 0x80]))).path, "/workspace/a%\\xff\\x80");
  const written = await sandbox.writeFile(odd, "1");
  assert.deepEqual([written.path, written.created], ["/workspace/a%\\xff\\x80/?#b.png", true]);
  const read = await sandbox.readFile(odd);
  assert.deepEqual([read.path, read.content, read.mimeType], [written.path, "1", "image/png"]);
  const stream = await sandbox.readFile(odd, { encoding: "none" });
  assert.equal(await new Response(stream.content).text(), "1");
  // What is told of it is enough to find it again.
  const [dir, file] = (await sandbox.listFiles("/workspace", { recursive: true })).files;
  assert.deepEqual([dir.nameBase64, file.nameBase64], [Buffer.from(bytes("a%", [0xff, 0x80])).toString("base64"), undefined]);
  const found = Buffer.from(file.absolutePathBase64, "base64");
  assert.equal((await sandbox.stat(found)).name, "?#b.png");
  assert.equal((await sandbox.listFiles(Buffer.from(dir.absolutePathBase64, "base64"))).count, 1);
  assert.equal((await sandbox.exists(found)).exists, true);
  const seen = await sandbox.exec(["sh", "-c", "cat /workspace/a%*/*"]);
  assert.equal(seen.stdout, "1");
  const moved = await sandbox.moveFile(odd, bytes([0xfe]));
  assert.deepEqual([moved.path, moved.newPath], [written.path, "/workspace/\\xfe"]);
  await sandbox.copyFile(bytes([0xfe]), "plain");
  await sandbox.renameFile("plain", bytes("/workspace/x/../", [0xfd]));
  assert.equal((await sandbox.readFile(bytes([0xfd]))).content, "1");
  const archive = await sandbox.readArchive(bytes([0xfd]));
  await sandbox.writeArchive(bytes("a%", [0xff, 0x80]), archive);
  assert.equal((await sandbox.readFile(bytes("a%", [0xff, 0x80], "/", [0xfd]))).content, "1");
  for await (const event of sandbox.watch(bytes("a%", [0xff, 0x80]))) {
    if (event.type === "ready") await sandbox.deleteFile(bytes("a%", [0xff, 0x80], "/", [0xfd]));
    if (event.type !== "deleted") continue;
    assert.deepEqual(new Uint8Array(Buffer.from(event.pathBase64, "base64")), bytes("/workspace/a%", [0xff, 0x80], "/", [0xfd]));
    break;
  }
  await sandbox.deleteFile(bytes("a%", [0xff, 0x80]), { recursive: true });
  await assert.rejects(sandbox.readFile(odd), { name: "FileNotFoundError" });
  // Bytes that are text mean the same as the text.
  await sandbox.writeFile(bytes("é"), "2");
  assert.equal((await sandbox.readFile("é")).content, "2");
  for (const path of [bytes("../", [0xff]), bytes("/etc/", [0xff])]) {
    await assert.rejects(sandbox.readFile(path), { name: "PermissionDeniedError" });
    await assert.rejects(sandbox.exists(path), { name: "PermissionDeniedError" });
  }
  for (const path of [new Uint8Array(), "", 7, undefined]) {
    await assert.rejects(sandbox.readFile(path), { code: "VALIDATION_FAILED" });
    await assert.rejects(sandbox.moveFile("é", path), { code: "VALIDATION_FAILED" });
  }
});

test("nothing is replaced where that is not wanted", async () => {
  const sandbox = fresh();
  await sandbox.writeFile("a", "a");
  await sandbox.writeFile("b", "b");
  for (const name of ["moveFile", "renameFile", "copyFile"]) {
    await assert.rejects(sandbox[name]("a", "b", { overwrite: false }), { name: "FileExistsError", code: "FILE_EXISTS" });
    assert.equal((await sandbox.readFile("b")).content, "b");
  }
  await sandbox.copyFile("a", "c", { overwrite: false });
  await sandbox.copyFile("a", "b", { overwrite: true });
  assert.equal((await sandbox.readFile("b")).content, "a");
  await sandbox.moveFile("a", "b");
  assert.equal((await sandbox.exists("a")).exists, false);
});

test("any call brings a sandbox into being, without an instance", async () => {
  await assert.rejects(fresh().readFile("a"), { name: "FileNotFoundError" });
  assert.equal((await fresh().listFiles("/workspace")).count, 0);
  assert.equal((await fresh().exists("a")).exists, false);
  const sandbox = fresh();
  await sandbox.writeFile("a", "1");
  assert.equal((await sandbox.readFile("a")).content, "1");
  assert.equal((await sandbox.getInfo()).running, false);
});

test("trees go out and come in as tar archives", async () => {
  const [from, to] = [fresh(), fresh()];
  await from.mkdir("tree/deep", { recursive: true });
  await from.writeFile("tree/deep/a", "1");
  await from.writeFile("tree/b", "22");
  await to.mkdir("here");
  const unpacked = await to.writeArchive("here", await from.readArchive("tree"));
  assert.deepEqual([unpacked.success, unpacked.path, unpacked.bytes], [true, "/workspace/here", 3]);
  const list = await to.listFiles("here", { recursive: true });
  assert.deepEqual(list.files.map((f) => f.relativePath), ["b", "deep", "deep/a"]);
  assert.equal((await to.readFile("here/deep/a")).content, "1");
  await assert.rejects(to.writeArchive("none", await from.readArchive()), { name: "FileNotFoundError", operation: "archive.write" });
  await assert.rejects(from.readArchive("none"), { name: "FileNotFoundError", operation: "archive.read" });
});

test("a watch tells what changes, whoever changes it", async () => {
  const sandbox = fresh();
  await sandbox.mkdir("dir");
  const seen = [];
  for await (const event of sandbox.watch("dir")) {
    seen.push(event.type);
    if (event.type === "ready") await sandbox.exec(["sh", "-c", "echo 1 > /workspace/dir/a && mv /workspace/dir/a /workspace/dir/b"]);
    if (event.type === "created") assert.deepEqual([event.path, event.directory], ["/workspace/dir/a", false]);
    if (event.type === "moved") {
      assert.deepEqual([event.path, event.newPath], ["/workspace/dir/a", "/workspace/dir/b"]);
      await sandbox.deleteFile("dir", { recursive: true });
    }
  }
  assert.deepEqual([seen[0], seen[1], seen.includes("moved"), seen.at(-1)], ["ready", "created", true, "gone"]);
  const abort = new AbortController();
  const aborted = async () => { for await (const _ of sandbox.watch("/workspace", { signal: abort.signal })) abort.abort(); };
  await assert.rejects(aborted(), { name: "AbortError" });
  await assert.rejects(sandbox.watch("none").next(), { name: "FileNotFoundError" });
});
