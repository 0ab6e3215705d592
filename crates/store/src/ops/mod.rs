//! The SQL of each operation. These run inside a transaction of the writer, or on a reader.

pub(crate) mod account;
pub(crate) mod checkpoints;
pub(crate) mod contexts;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod labels;
pub(crate) mod lifecycle;
pub(crate) mod lists;
pub(crate) mod outbox;
pub(crate) mod pages;
pub(crate) mod quotas;
pub(crate) mod rows;
pub(crate) mod sandboxes;
pub(crate) mod sweep;
pub(crate) mod tokens;

#[cfg(test)]
mod plans;
