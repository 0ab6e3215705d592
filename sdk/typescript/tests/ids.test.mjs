import assert from "node:assert/strict";
import { test } from "node:test";
import { getSandbox, validateSandboxId } from "sandkeep";

const URL_OF_NOBODY = "http://127.0.0.1:1";

test("names that follow the rule are taken", () => {
  for (const id of ["a", "A.b_c-9", "...", "_", "x".repeat(63), "apis"]) validateSandboxId(id);
});

test("names that break the rule are refused with a plain error that says why", () => {
  const wrong = ["", "x".repeat(64), "a b", "a/b", "é", "a\n", "-a", "a-", "-", ".", ".."];
  const reserved = ["www", "API", "Admin", "root", "system", "cloudflare", "WORKERS"];
  const noText = [undefined, null, 7, {}, ["a"]];
  for (const id of [...wrong, ...reserved, ...noText]) {
    assert.throws(() => validateSandboxId(id), plain, `${JSON.stringify(id)} was taken`);
    assert.throws(() => getSandbox(URL_OF_NOBODY, id), plain);
  }
  assert.throws(() => validateSandboxId("a/b"), /"\/"/);
  assert.throws(() => validateSandboxId("x".repeat(64)), /1 to 63 characters, not 64/);
});

test("normalizeId makes the name lower-case first", () => {
  assert.equal(getSandbox(URL_OF_NOBODY, "Notes", { normalizeId: true }).id, "notes");
  assert.equal(getSandbox(URL_OF_NOBODY, "Notes").id, "Notes");
  assert.throws(() => getSandbox(URL_OF_NOBODY, "A B", { normalizeId: true }), plain);
});

test("what is no server is refused at once, with a plain error", () => {
  const fetcher = { fetch() {} };
  // A remote stub answers a function for any name that it is asked for.
  const stub = new Proxy(() => undefined, { get: () => () => undefined });
  const wrong = [undefined, null, 7, "", "notes", "/v1", "ftp://host", "http://", fetcher, stub, new Proxy({}, { get: () => () => undefined })];
  for (const server of [...wrong, "http://user:word@host", "http://host/?a=b", "http://host/#a", { url: 7 }, { url: URL_OF_NOBODY, token: 7 }]) {
    assert.throws(() => getSandbox(server, "notes"), plain);
  }
  assert.throws(() => getSandbox({ url: URL_OF_NOBODY, token: "two words" }, "notes"), plain);
  assert.throws(() => getSandbox(URL_OF_NOBODY, "notes", { owner: "a/b" }), plain);
  for (const options of [null, "ada", 5]) assert.throws(() => getSandbox(URL_OF_NOBODY, "notes", options), plain);
});

test("a URL, its text and a client are taken, and nothing is asked of any of them", () => {
  const fetch = () => assert.fail("a request");
  for (const server of [URL_OF_NOBODY, new URL(URL_OF_NOBODY), { url: URL_OF_NOBODY, fetch }, { url: new URL(URL_OF_NOBODY) }]) {
    assert.equal(getSandbox(server, "notes").id, "notes");
  }
});

test("id and interpreter cannot be replaced", () => {
  const sandbox = getSandbox(URL_OF_NOBODY, "notes");
  assert.throws(() => { sandbox.id = "other"; }, TypeError);
  assert.throws(() => { sandbox.interpreter = null; }, TypeError);
  assert.equal(sandbox.interpreter, sandbox.interpreter);
  assert.equal(sandbox.id, "notes");
});

function plain(error) {
  assert.equal(Object.getPrototypeOf(error), Error.prototype);
  assert.notEqual(error.message, "");
  return true;
}
