//! Tokens: for administrators.

use crate::http::{body, path_segment};
use crate::{Client, Result};
use reqwest::Method;
use types::{NewToken, TokenInfo, TokenPage, TokenRequest};

impl Client {
    /// `POST /v1/admin/tokens`: makes a token. Its secret is in the answer and nowhere else.
    pub async fn create_token(&self, token: &TokenRequest) -> Result<NewToken> {
        self.json(body(self.request(Method::POST, "/v1/admin/tokens"), token)).await
    }

    /// `GET /v1/admin/tokens`: one page, oldest first, from the cursor of the page before.
    pub async fn tokens(&self, limit: Option<u32>, cursor: Option<&str>) -> Result<TokenPage> {
        let limit = limit.map(|n| ("limit", n.to_string()));
        let cursor = cursor.map(|text| ("cursor", text.to_owned()));
        let query: Vec<_> = limit.into_iter().chain(cursor).collect();
        self.json(self.request(Method::GET, "/v1/admin/tokens").query(&query)).await
    }

    /// Every page.
    pub async fn all_tokens(&self) -> Result<Vec<TokenInfo>> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.tokens(Some(1000), cursor.as_deref()).await?;
            all.extend(page.tokens);
            match page.next_cursor {
                None => return Ok(all),
                // A server that repeats a cursor would hold its caller for ever.
                next if next == cursor => {
                    return Err(crate::Error::Protocol("the server repeats a page".to_owned()));
                }
                next => cursor = next,
            }
        }
    }

    /// `DELETE /v1/admin/tokens/{id}`: no request that begins later gets in with it.
    pub async fn revoke_token(&self, id: &str) -> Result<()> {
        let path = format!("/v1/admin/tokens/{}", path_segment(id.as_bytes()));
        self.done(self.request(Method::DELETE, &path)).await
    }
}
