//! The tables `[quotas]`, `[quotas.machine]` and `[quotas.owners.NAME]`.

use super::values;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use types::{Owner, QuotaTable, Quotas};

/// A limit as it is written: a number, `"unlimited"`, or not at all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Named<T> {
    #[default]
    Not,
    Unlimited,
    Limit(T),
}

impl<T> Named<T> {
    /// In place of `usual`, where it is named.
    fn over(self, usual: Option<T>) -> Option<T> {
        match self {
            Self::Not => usual,
            Self::Unlimited => None,
            Self::Limit(limit) => Some(limit),
        }
    }
}

const UNLIMITED: &str = "unlimited";

fn named<'de, D: Deserializer<'de>, T>(
    d: D,
    expected: &str,
    number: impl Fn(&values::Amount) -> Option<T>,
) -> Result<Named<T>, D::Error> {
    let amount = values::Amount::deserialize(d)?;
    if matches!(&amount, values::Amount::Text(text) if text == UNLIMITED) {
        return Ok(Named::Unlimited);
    }
    let wrong = || serde::de::Error::custom(format!("it must be {expected}, or {UNLIMITED:?}"));
    number(&amount).map(Named::Limit).ok_or_else(wrong)
}

fn count<'de, D: Deserializer<'de>>(d: D) -> Result<Named<u64>, D::Error> {
    named(d, "a whole number", values::Amount::whole)
}

fn bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Named<u64>, D::Error> {
    named(d, "a size such as 500MB or 10GiB", values::Amount::bytes)
}

fn share<'de, D: Deserializer<'de>>(d: D) -> Result<Named<f64>, D::Error> {
    named(d, "a number", values::Amount::share)
}

/// A table of limits, with what else may stand in it.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($(#[$meta:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub struct $name {
            #[serde(deserialize_with = "count")]
            sandboxes: Named<u64>,
            #[serde(deserialize_with = "count")]
            running: Named<u64>,
            #[serde(deserialize_with = "count")]
            memory_mib: Named<u64>,
            #[serde(deserialize_with = "share")]
            vcpu: Named<f64>,
            #[serde(deserialize_with = "bytes")]
            workspace_bytes: Named<u64>,
            #[serde(deserialize_with = "count")]
            contexts: Named<u64>,
            #[serde(deserialize_with = "count")]
            tokens: Named<u64>,
            #[serde(deserialize_with = "share")]
            requests_per_second: Named<f64>,
            $($(#[$meta])* $field: $kind,)*
        }

        impl $name {
            fn over(&self, usual: &Quotas) -> Quotas {
                Quotas {
                    sandboxes: self.sandboxes.over(usual.sandboxes),
                    running: self.running.over(usual.running),
                    memory_mib: self.memory_mib.over(usual.memory_mib),
                    vcpu: self.vcpu.over(usual.vcpu),
                    workspace_bytes: self.workspace_bytes.over(usual.workspace_bytes),
                    contexts: self.contexts.over(usual.contexts),
                    tokens: self.tokens.over(usual.tokens),
                    requests_per_second: self.requests_per_second.over(usual.requests_per_second),
                }
            }
        }
    };
}

table!(
    /// `[quotas.machine]` and `[quotas.owners.NAME]`.
    Limits {}
);

table!(
    /// `[quotas]`: of each owner, and what goes with it.
    Tables {
        #[serde(deserialize_with = "values::duration")]
        wait: u64,
        machine: Limits,
        owners: BTreeMap<Owner, Limits>,
    }
);

impl Tables {
    /// The limits of everybody. An owner that is named has the usual ones where it names none.
    pub fn table(&self) -> QuotaTable {
        let owner = self.over(&Quotas::default());
        let owners = self.owners.iter().map(|(name, own)| (name.clone(), own.over(&owner)));
        QuotaTable {
            owner,
            machine: self.machine.over(&Quotas::default()),
            owners: owners.collect(),
        }
    }

    /// How long a start waits for room where its caller names no time, ms.
    pub fn wait(&self) -> u64 {
        self.wait
    }
}
