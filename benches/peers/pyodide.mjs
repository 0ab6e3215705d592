// Times pyodide in node. Usage: pyodide.mjs MODULE ROUNDS STARTS, a JSON list of snippets on
// standard input. Prints one JSON object: `start` (ms from nothing to the first result, the
// module's own loading included once) and `warm` (for each snippet, ms per execution).

import { pathToFileURL } from "node:url";

const [module, rounds, starts] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(module));
let text = "";
for await (const chunk of process.stdin) text += chunk;
const snippets = JSON.parse(text);

const start = [];
let python;
for (let i = 0; i < Number(starts); i++) {
  const before = performance.now();
  python = await loadPyodide();
  await python.runPythonAsync("x = 1");
  start.push(performance.now() - before);
}
const warm = {};
for (const snippet of snippets) {
  await python.runPythonAsync(snippet);
  warm[snippet] = [];
  for (let i = 0; i < Number(rounds); i++) {
    const before = performance.now();
    await python.runPythonAsync(snippet);
    warm[snippet].push(performance.now() - before);
  }
}
console.log(JSON.stringify({ start, warm }));
process.exit(0);
