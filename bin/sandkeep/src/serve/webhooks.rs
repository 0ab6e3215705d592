//! The webhooks of the configuration.

use crate::config::Webhook;
use crate::fail::Failure;
use std::collections::BTreeSet;
use webhooks::{Endpoint, Secret};

/// Longest secret file, bytes.
const SECRET_FILE: usize = 4096;

/// What is to be sent where.
pub fn endpoints(configured: &[Webhook]) -> anyhow::Result<Vec<Endpoint>> {
    let mut names = BTreeSet::new();
    let all = configured.iter().zip(1..).map(|(webhook, number)| {
        let endpoint = endpoint(webhook)
            .map_err(|why| Failure::new(format!("the configuration's webhook {number}: {why}")))?;
        if !names.insert(endpoint.name.clone()) {
            let text = format!("two webhooks of the configuration are called {:?}", endpoint.name);
            return Err(Failure::new(text).hint("give each a name of its own").into());
        }
        Ok(endpoint)
    });
    all.collect()
}

fn endpoint(webhook: &Webhook) -> Result<Endpoint, String> {
    let secret = match (&webhook.secret, &webhook.secret_file) {
        (Some(secret), None) => secret.clone(),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path)
                .map_err(|e| format!("cannot read its secret from {}: {e}", path.display()))?;
            if text.len() > SECRET_FILE {
                return Err(format!("{} is too large for a secret", path.display()));
            }
            Secret::new(text.trim_end_matches(['\n', '\r']))
        }
        _ => return Err("it needs either secret or secret-file".to_owned()),
    };
    let endpoint = Endpoint::new(webhook.name.as_deref(), &webhook.url, secret);
    let endpoint = endpoint.map_err(|e| e.to_string())?;
    let types = webhook.types.iter().map(|kind| kind.parse()).collect::<Result<_, String>>()?;
    let owner = webhook
        .owner
        .as_deref()
        .map(|owner| owner.parse().map_err(|e: types::NameError| format!("its owner: {e}")));
    let endpoint = endpoint.types(types).owner(owner.transpose()?);
    Ok(endpoint.allow_private(webhook.allow_private))
}
