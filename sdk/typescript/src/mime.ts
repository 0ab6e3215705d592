/** What a file is, by its name. The server says nothing of it: a name is no proof. */

const TYPES: ReadonlyMap<string, string> = new Map([
  ["txt", "text/plain"],
  ["log", "text/plain"],
  ["md", "text/markdown"],
  ["csv", "text/csv"],
  ["html", "text/html"],
  ["htm", "text/html"],
  ["css", "text/css"],
  ["js", "text/javascript"],
  ["mjs", "text/javascript"],
  ["ts", "text/x-typescript"],
  ["py", "text/x-python"],
  ["rb", "text/x-ruby"],
  ["pl", "text/x-perl"],
  ["sh", "text/x-shellscript"],
  ["json", "application/json"],
  ["xml", "application/xml"],
  ["yaml", "application/yaml"],
  ["yml", "application/yaml"],
  ["toml", "application/toml"],
  ["pdf", "application/pdf"],
  ["zip", "application/zip"],
  ["gz", "application/gzip"],
  ["tar", "application/x-tar"],
  ["wasm", "application/wasm"],
  ["png", "image/png"],
  ["jpg", "image/jpeg"],
  ["jpeg", "image/jpeg"],
  ["gif", "image/gif"],
  ["webp", "image/webp"],
  ["svg", "image/svg+xml"],
]);

/** The MIME type of a name's ending; `other` where that says nothing. */
export function mimeOf(path: string, other: string): string {
  const ending = /\.([^./]+)$/.exec(path)?.[1];
  return (ending === undefined ? undefined : TYPES.get(ending.toLowerCase())) ?? other;
}
