//! What an execution says while it runs, on its way to the server.

use super::Out;
use crate::protocol::FromWorker;
use crate::wasi::Sink;
use types::{RichResult, Stream};

/// Sends everything on at once: output is limited where it is taken from the guest.
pub(super) struct Tell {
    pub id: u64,
    pub out: Out,
}

impl Sink for Tell {
    fn output(&mut self, stream: Stream, bytes: Vec<u8>, at: i64) {
        self.out.tell(&FromWorker::Output { id: self.id, stream, at }, bytes);
    }

    fn result(&mut self, result: RichResult) {
        let shown = FromWorker::Shown { id: self.id, result: Box::new(result) };
        self.out.tell(&shown, Vec::new());
    }
}
