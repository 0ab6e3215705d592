//! Interpreters as WebAssembly, their contexts and memory snapshots (S4).
