// Lists of a real server: every page, every filter, labels.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { getSandbox, listSandboxes, SandboxError } from "sandkeep";
import { Server } from "./support/server.mjs";

let server;
const ends = [];
before(async () => { server = await Server.start({ after: (end) => ends.push(end) }); });
after(async () => { for (const end of ends) await end(); });

/** All of a list. */
async function collect(list) {
  const all = [];
  for await (const one of list) all.push(one);
  return all;
}

const ids = async (options) => (await collect(listSandboxes(server.url, options))).map(({ id }) => id);
const owned = (owner) => (id) => getSandbox(server.url, id, { owner });

test("a list goes over all pages, in every order", async () => {
  const owner = "pages";
  const all = Array.from({ length: 25 }, (_, n) => `s${String(n).padStart(2, "0")}`);
  for (const id of all) await owned(owner)(id).getInfo();
  for (const pageSize of [undefined, 1, 7, 24, 25, 26]) {
    assert.deepEqual(await ids({ owner, pageSize }), all, `pages of ${pageSize}`);
    assert.deepEqual(await ids({ owner, pageSize, sort: "-name" }), all.toReversed());
  }
  assert.deepEqual(await ids({ owner, prefix: "s1" }), all.slice(10, 20));
  assert.deepEqual(await ids({ owner, createdAfter: new Date(), createdBefore: 1 }), []);
  assert.deepEqual(await ids({ owner: "nobody" }), []);
  // Leaving early asks for no further page.
  for await (const { id } of listSandboxes({ url: server.url, owner }, { pageSize: 2 })) {
    if (id === "s02") break;
  }
  const mixed = await collect(listSandboxes(server.url, { allOwners: true, pageSize: 7 }));
  assert.deepEqual(mixed.filter((one) => one.owner === owner).map(({ id }) => id), all);
});

test("labels are set, changed, removed and found by", async () => {
  const owner = "labels";
  const [one, two] = ["one", "two"].map(owned(owner));
  await one.setLabels({ job: "42", "example.com/team": "a = b & c", gone: "x" });
  await one.setLabels({ gone: null });
  await two.setLabels({ job: "42" });
  assert.deepEqual((await one.getInfo()).labels, { "example.com/team": "a = b & c", job: "42" });
  assert.deepEqual(await ids({ owner, labels: { job: "42" } }), ["one", "two"]);
  assert.deepEqual(await ids({ owner, labels: { job: "42", "example.com/team": "a = b & c" } }), ["one"]);
  assert.deepEqual(await ids({ owner, labels: { job: "4" } }), []);
  const [summary] = await collect(listSandboxes(server.url, { owner, prefix: "two" }));
  assert.deepEqual([summary.labels, summary.state, summary.running], [{ job: "42" }, null, false]);
  await assert.rejects(one.setLabels({ "a b": "x" }), (error) => error.code === "VALIDATION_FAILED" && error.context.field === "labels");
});

test("what is wrong is told", async () => {
  assert.throws(() => listSandboxes("nowhere"), /is no URL/);
  const wrong = (options) => assert.rejects(ids(options), (error) => error instanceof SandboxError && error.code === "VALIDATION_FAILED");
  await wrong({ sort: "size" });
  await wrong({ pageSize: 0 });
  await wrong({ state: "asleep" });
  await assert.rejects(ids({ signal: AbortSignal.abort(new Error("enough")) }), /enough/);
});
