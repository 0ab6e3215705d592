//! `sandkeep token`: who may come in.

use crate::cli::Global;
use crate::connect::{self, Held};
use crate::fail::Failure;
use crate::{output, verbs};
use auth::Keyring;
use clap::Subcommand;
use client::Client;
use objects::Clock;
use store::Store;
use types::{NewToken, Scope, TokenInfo, TokenRequest};

/// Make, list and revoke tokens
///
/// Asks the server of the data directory, or the one of --url as its administrator; where no
/// server uses the data directory, works on the directory itself. With the first token a server
/// asks every caller for one.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a token, and print it; it is told this once
    ///
    /// For an owner (--owner NAME), who then acts for itself alone, or with a scope.
    Create {
        /// For no owner: containers:read reads what all owners have, admin does all for any owner.
        #[arg(long, value_name = "SCOPE")]
        scope: Option<Scope>,
        /// End by itself after this long [default: never].
        #[arg(long, value_name = "DURATION", value_parser = verbs::duration)]
        expires: Option<u64>,
        /// What it is for, in words.
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// List them, oldest first: id, whose, state, made, ends, last used, label
    Ls,
    /// Revoke some, by id: nobody gets in with them, and what they have under way ends
    Revoke {
        /// The tokens' ids.
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

impl Args {
    /// Does it.
    pub async fn run(self, global: &Global) -> anyhow::Result<u8> {
        // What cannot be is told before anything is opened.
        let request = match &self.verb {
            Verb::Create { scope, expires, label } => {
                Some(request(global, *scope, *expires, label.clone())?)
            }
            _ => None,
        };
        let keys = Keys::open(global, request.is_some()).await?;
        let done = self.act(&keys, request, global.json).await;
        keys.close().await;
        done
    }

    async fn act(
        self,
        keys: &Keys,
        request: Option<TokenRequest>,
        json: bool,
    ) -> anyhow::Result<u8> {
        match (self.verb, request) {
            (Verb::Revoke { ids }, _) => {
                return Ok(verbs::each(&ids, async |id: &String| keys.revoke(id).await).await);
            }
            (_, Some(request)) => {
                let new = keys.create(&request).await?;
                if json {
                    output::json(&new)?;
                } else {
                    output::bytes(format!("{}\n", new.token).as_bytes())?;
                }
            }
            (_, None) => list(&keys.list().await?, json)?,
        }
        Ok(0)
    }
}

fn request(
    global: &Global,
    scope: Option<Scope>,
    expires_in_ms: Option<u64>,
    label: Option<String>,
) -> anyhow::Result<TokenRequest> {
    let mut owner = global.owner.clone();
    // What the environment says for all verbs gives way to what was typed.
    let usual = std::env::var("SANDKEEP_OWNER").ok();
    if scope.is_some() && owner.as_ref().map(|o| o.as_str()) == usual.as_deref() {
        owner = None;
    }
    if owner.is_none() && scope.is_none() {
        let text = "a token is for an owner, or has a scope";
        return Err(Failure::new(text)
            .hint("say --owner NAME, --scope containers:read or --scope admin")
            .into());
    }
    let request = TokenRequest { owner, scope, label, expires_in_ms };
    request.grant().map_err(|error| Failure::new(error.message))?;
    Ok(request)
}

/// Where the tokens are.
enum Keys {
    Server(Client),
    Here(Store, Keyring),
}

impl Keys {
    /// `make`: a data directory that is empty gets a store.
    async fn open(global: &Global, make: bool) -> anyhow::Result<Self> {
        let store = match connect::held(global, make).await? {
            Held::Server(client) => return Ok(Self::Server(client)),
            Held::Here(store, _) => store,
        };
        store.restore_quotas().await?;
        let options = auth::Options { clock: Clock::from_environment(), ..Default::default() };
        let keyring = Keyring::open(store.clone(), options).await?;
        Ok(Self::Here(store, keyring))
    }

    async fn close(self) {
        if let Self::Here(store, _) = self {
            store.close().await;
        }
    }

    async fn create(&self, request: &TokenRequest) -> anyhow::Result<NewToken> {
        Ok(match self {
            Self::Server(client) => client.create_token(request).await?,
            Self::Here(_, keyring) => keyring.create(request).await?,
        })
    }

    async fn list(&self) -> anyhow::Result<Vec<TokenInfo>> {
        let keyring = match self {
            Self::Server(client) => return Ok(client.all_tokens().await?),
            Self::Here(_, keyring) => keyring,
        };
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = keyring.list(1000, cursor.as_deref()).await?;
            all.extend(page.tokens);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn revoke(&self, id: &str) -> anyhow::Result<()> {
        match self {
            Self::Server(client) => client.revoke_token(id).await?,
            Self::Here(_, keyring) => keyring.revoke(id).await?,
        }
        Ok(())
    }
}

fn list(all: &[TokenInfo], json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&all);
    }
    let now = types::iso8601(Clock::from_environment().now_ms());
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |token: &TokenInfo| {
        let whose = match (&token.owner, token.scope) {
            (Some(owner), _) => owner.to_string(),
            (None, Some(scope)) => format!("({})", scope.as_str()),
            (None, None) => "-".to_owned(),
        };
        // Times of this form are ordered as texts are.
        let state = match &token.expires_at {
            _ if token.revoked_at.is_some() => "revoked",
            Some(end) if *end <= now => "expired",
            _ => "valid",
        };
        vec![
            token.id.clone(),
            whose,
            state.to_owned(),
            token.created_at.clone(),
            or_dash(&token.expires_at),
            or_dash(&token.last_used_at),
            or_dash(&token.label),
        ]
    };
    let header = ["ID", "OWNER", "STATE", "CREATED AT", "EXPIRES AT", "LAST USED", "LABEL"];
    output::rows(&header, all.iter().map(row).collect())
}
