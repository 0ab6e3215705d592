//! `GET /v1/admin/backup`.

use crate::{Client, Error, Result};
use reqwest::{Method, Response};

/// An archive that arrives.
pub struct BackupPieces {
    response: Response,
    client: Client,
}

impl BackupPieces {
    /// The next bytes; `None` at the end of a whole answer. Errors: [`Error::Protocol`] where it
    /// breaks off.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let piece = self.response.chunk().await.map_err(|e| self.client.failure(&e))?;
        Ok(piece.map(Into::into))
    }
}

impl Client {
    /// `GET /v1/admin/backup`: all that the server keeps; for administrators.
    pub async fn backup(&self) -> Result<BackupPieces> {
        let response = self.send(self.request(Method::GET, "/v1/admin/backup")).await?;
        Ok(BackupPieces { response, client: self.clone() })
    }
}
