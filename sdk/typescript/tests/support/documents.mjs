// Programs that stand in documents: taken out, held to their types, run.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const PACKAGE = fileURLToPath(new URL("../../", import.meta.url));

/** The blocks of a document in one language. */
export function blocks(document, language) {
  const text = readFileSync(document, "utf8");
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].filter(([, tag]) => tag === language).map(([, , code]) => code);
}

/**
 * Holds programs to their types as a caller of the built package, and makes them modules below
 * `build`, where the package's name leads to the package. Answers their paths.
 */
export async function compile(t, sources, ambient = "") {
  const dir = join(PACKAGE, "build", String(process.pid));
  await mkdir(dir, { recursive: true });
  t.after(() => rm(dir, { recursive: true, force: true }));
  const path = (i, extension) => join(dir, `program${i}.${extension}`);
  await Promise.all(sources.map((source, i) => writeFile(path(i, "ts"), source)));
  const globals = join(dir, "globals.d.ts");
  await writeFile(globals, ambient);
  const program = ts.createProgram([globals, ...sources.map((_, i) => path(i, "ts"))], {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts", "lib.dom.asynciterable.d.ts"],
    types: [],
    strict: true,
    skipDefaultLibCheck: true,
    noEmitOnError: true,
  });
  const wrong = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
  const shown = { getCanonicalFileName: (file) => file, getCurrentDirectory: () => dir, getNewLine: () => "\n" };
  assert.equal(ts.formatDiagnostics(wrong, shown), "");
  return sources.map((_, i) => path(i, "js"));
}

/** The lines that a program promises to print: what stands after `//` on its lines that print. */
export function promised(source) {
  return source
    .split("\n")
    .filter((line) => line.includes("console.log("))
    .map((line) => {
      const [, said] = /\/\/ (.*)$/.exec(line) ?? [];
      assert.ok(said !== undefined, `what does this print? ${line}`);
      return said;
    });
}
