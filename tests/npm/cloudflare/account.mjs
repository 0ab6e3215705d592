// The account's list of instances, as the official client sees it. Takes the server's URL and what
// must be there, as JSON: { names, active, ids }.

import assert from "node:assert/strict";
import Cloudflare from "cloudflare";

const [url, wanted] = [process.argv[2], JSON.parse(process.argv[3])];
const client = new Cloudflare({ apiToken: process.env.TOKEN ?? "any", baseURL: `${url}/client/v4`, maxRetries: 0 });
const { applications } = client.containers;
const account_id = "023e105f4ecef8ad9ca31a8372d0c353";
const application = "0e1d2c3b-4a59-4876-8567-abcdef012345";

/** All of a list, over all its pages. */
async function all(pages) {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
}

const names = (items) => items.map(({ name }) => name);

// Pages of any size, both forms, without a size too.
for (const per_page of [undefined, 1, 2, 3, 1000]) {
  const query = { account_id, per_page };
  const items = await all(applications.instances.list(application, query));
  assert.deepEqual(names(items), wanted.names);
  assert.deepEqual(items.map(({ id }) => id), wanted.ids);
  assert.deepEqual(await all(applications.instances.listV1(application, query)), items);
}

// Filters.
const listed = async (query) => names(await all(applications.instances.list(application, { account_id, per_page: 2, ...query })));
assert.deepEqual(await listed({ name_prefix: "ada/" }), wanted.names.filter((name) => name.startsWith("ada/")));
assert.deepEqual(await listed({ name_prefix: "Ada/none" }), []);
assert.deepEqual(await listed({ state: "active" }), wanted.active);
assert.deepEqual(await listed({ state: "not-active" }), wanted.names.filter((name) => !wanted.active.includes(name)));

// One, as it stands in the list.
const [first] = await all(applications.instances.list(application, { account_id }));
assert.deepEqual(await applications.instances.get(first.id, { account_id, application_id: application }), first);
assert.equal(first.application_id, application);

// The applications.
const [only, ...more] = await all(applications.list({ account_id }));
assert.deepEqual([only.account_id, only.scheduling_policy, more.length], [account_id, "durable_object", 0]);
assert.deepEqual(names(await all(applications.instances.list(only.id, { account_id }))), wanted.names);

// Errors come as the client knows them.
const refused = (promise, kind, status, text) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof kind, `${error}`);
    assert.equal(error.status, status);
    assert.equal(error.errors.length, 1);
    assert.ok(error.errors[0].code >= 1000);
    assert.match(error.errors[0].message, text);
    return true;
  });
await refused(all(applications.instances.list(application, { account_id, state: "asleep" })), Cloudflare.BadRequestError, 400, /state/);
await refused(all(applications.instances.list(application, { account_id, page_token: "x" })), Cloudflare.BadRequestError, 400, /page_token/);
await refused(all(applications.instances.list(application, { account_id, per_page: 1001 })), Cloudflare.BadRequestError, 400, /per_page/);
const none = applications.instances.get("0".repeat(64), { account_id, application_id: application });
await refused(none, Cloudflare.NotFoundError, 404, /instance/);
await refused(client.get("/accounts/x/containers/none"), Cloudflare.NotFoundError, 404, /route/);
console.log("ok");
