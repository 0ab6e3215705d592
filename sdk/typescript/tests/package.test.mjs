// The package as it is published: installed elsewhere, imported, and held to its types.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const run = promisify(execFile);

test("the packed package works elsewhere, needs nothing, and has what it should", async (t) => {
  const dir = await mkdtemp(join(tmpdir(), "sandkeep-sdk-"));
  t.after(() => rm(dir, { recursive: true, force: true }));
  // What was built is packed: building here would pull it from under other tests.
  const packed = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", dir], { cwd: PACKAGE });
  const told = JSON.parse(packed.stdout);
  const [{ filename, files }] = Array.isArray(told) ? told : Object.values(told);
  const names = files.map(({ path }) => path);
  for (const name of ["README.md", "package.json", "dist/index.js", "dist/index.d.ts"]) assert.ok(names.includes(name), name);
  const strange = names.filter((name) => !/^(README\.md|package\.json|dist\/[\w-]+\.(js|d\.ts))$/.test(name));
  assert.deepEqual(strange, []);

  const home = join(dir, "node_modules/sandkeep");
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", join(dir, filename), "-C", home, "--strip-components=1"]);
  const about = JSON.parse(await readFile(join(home, "package.json"), "utf8"));
  assert.deepEqual([about.dependencies, about.optionalDependencies, about.peerDependencies], [undefined, undefined, undefined]);

  await writeFile(join(dir, "package.json"), '{"type":"module"}');
  await writeFile(join(dir, "main.ts"), `
    import { getSandbox, SandboxError, type SandboxClient } from "sandkeep";
    const sandbox: SandboxClient<"A"> = getSandbox<{ A: { fetch(): void }; B: string }>("http://127.0.0.1:1", "notes");
    sandbox.getInfo().catch((error) => console.log(sandbox.id, error instanceof SandboxError, error.code));
  `);
  // As somebody compiles who checks all declarations, and for a browser's bundler alike.
  const tsc = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const strict = ["--strict", "--target", "es2022", "--lib", "es2022,dom", "--skipDefaultLibCheck"];
  await run(process.execPath, [tsc, ...strict, "--module", "nodenext", "main.ts"], { cwd: dir });
  await run(process.execPath, [tsc, ...strict, "--module", "esnext", "--moduleResolution", "bundler", "--noEmit", "main.ts"], { cwd: dir });
  const { stdout } = await run(process.execPath, ["main.js"], { cwd: dir });
  assert.equal(stdout, "notes true CONNECTION_FAILED\n");
});

test("nothing in the built code is of Node alone", async () => {
  const dist = join(PACKAGE, "dist");
  for (const name of (await readdir(dist)).filter((n) => n.endsWith(".js"))) {
    const code = await readFile(join(dist, name), "utf8");
    assert.doesNotMatch(code, /from "(?!\.\/)|require\(|\bprocess\b|\bBuffer\b|__dirname/, name);
  }
});

test("the package's version is the program's, and its lock names no place to fetch from", async () => {
  const cargo = await readFile(join(PACKAGE, "../../Cargo.toml"), "utf8");
  const { version } = JSON.parse(await readFile(join(PACKAGE, "package.json"), "utf8"));
  assert.equal(version, /^version = "(.*)"$/m.exec(cargo)[1]);
  const lock = await readFile(join(PACKAGE, "package-lock.json"), "utf8");
  assert.doesNotMatch(lock, /:\/\/|"resolved"/);
});
