/** The rule of sandbox names. */

const RESERVED = new Set(["www", "api", "admin", "root", "system", "cloudflare", "workers"]);

/**
 * Throws a plain `Error` that names the rule where `id` cannot be the name of a sandbox:
 * 1 to 63 of `A-Z a-z 0-9 . _ -`, no hyphen at either end, no reserved name in any case.
 */
export function validateSandboxId(id: string): void {
  const shown = JSON.stringify(id);
  if (typeof id !== "string") {
    throw new Error(`A sandbox id must be a string, not ${id === null ? "null" : typeof id}`);
  }
  if (id.length < 1 || id.length > 63) {
    throw new Error(`A sandbox id must have 1 to 63 characters, not ${id.length}`);
  }
  const wrong = /[^A-Za-z0-9._-]/u.exec(id);
  if (wrong) {
    throw new Error(`The sandbox id ${shown} has the character ${JSON.stringify(wrong[0])}: only A-Z a-z 0-9 . _ - are allowed`);
  }
  if (id.startsWith("-") || id.endsWith("-")) {
    throw new Error(`The sandbox id ${shown} must not begin or end with a hyphen`);
  }
  if (id === "." || id === "..") {
    throw new Error(`The sandbox id ${shown} must not be a name of directories`);
  }
  if (RESERVED.has(id.toLowerCase())) {
    throw new Error(`The sandbox id ${shown} is reserved`);
  }
}

/** Throws a plain `Error` where `owner` cannot be the name of an owner. */
export function validateOwner(owner: string): void {
  const good = typeof owner === "string" && /^(?!-)(?!\.{1,2}$)[A-Za-z0-9._-]{1,63}(?<!-)$/.test(owner);
  if (!good) {
    throw new Error(`${JSON.stringify(owner)} is no name of an owner: 1 to 63 of A-Z a-z 0-9 . _ -, no hyphen at either end`);
  }
}
