//! Files below `/workspace`. They need no instance: what is done here is an activity of its own,
//! and ends when the sandbox goes.

mod keep;
mod lease;
mod transfer;

pub(crate) use keep::Workspaces;
pub use transfer::{Changes, Download, Packed, Unpacking, Uploading};

use crate::busy::Busy;
use crate::errors;
use crate::service::Sandboxes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keep::Turn;
use std::sync::Arc;
use types::{
    DeleteFileResult, Error, FileInfo, FileOperation, FilesOp, FilesRequest, FilesResult,
    ListFilesResult, Result, SandboxName, iso8601,
};
use workspace::{FilePath, Workspace};

/// Lists up to this many entries are bounded by the number of connections.
const SHORT: usize = 2000;

/// A list, and the room in the server's memory that a long one takes: to be kept until the caller
/// has it, so that slow readers are counted too.
pub struct Listed {
    /// The list.
    pub list: ListFilesResult,
    /// The room; none for short lists.
    pub room: Option<Turn>,
}

/// The files of one sandbox, for one activity. Cheap to clone; the sandbox is busy until the last
/// clone is dropped and the last piece of work has ended.
#[derive(Clone)]
pub struct Files {
    sandboxes: Sandboxes,
    workspace: Workspace,
    busy: Arc<Busy>,
}

impl Sandboxes {
    /// The files of a sandbox, made where needed. Errors: as [`Sandboxes::busy`].
    pub async fn files(&self, name: &SandboxName) -> Result<Files> {
        self.files_of(self.busy(name).await?).await
    }

    /// The same for what adds something. Errors: also `QUOTA_EXCEEDED`.
    pub async fn files_to_fill(&self, name: &SandboxName) -> Result<Files> {
        self.room_in_workspaces(&name.owner).await?;
        let files = self.files(name).await?;
        self.world().bound(&files.workspace, &files.busy).await?;
        Ok(files)
    }

    /// The same for what only reads, which makes nothing. Errors: also `SANDBOX_NOT_FOUND`.
    pub async fn files_if_there(&self, name: &SandboxName) -> Result<Files> {
        self.files_of(self.busy_if_there(name).await?).await
    }

    async fn files_of(&self, busy: Busy) -> Result<Files> {
        let workspace = self.world().workspace(busy.object()).await?;
        Ok(Files { sandboxes: self.clone(), workspace, busy: Arc::new(busy) })
    }
}

impl Files {
    /// Does work that blocks. It goes on when nobody waits for it any more, and keeps the sandbox
    /// busy until it ends. Errors: `SANDBOX_DESTROYED` where the sandbox goes meanwhile.
    async fn work<T: Send + 'static>(
        &self,
        operation: FileOperation,
        path: &FilePath,
        work: impl FnOnce(&Workspace) -> workspace::Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.busy.is_aborted() {
            return Err(errors::destroyed());
        }
        let (workspace, busy) = (self.workspace.clone(), self.busy.clone());
        let world = self.sandboxes.world.clone();
        let work = tokio::task::spawn_blocking(move || {
            let done = work(&workspace);
            world.store.touch(busy.object(), world.clock.now_ms());
            drop(busy);
            done
        });
        let done = tokio::select! {
            done = work => done.map_err(|e| errors::internal("a file operation", e))?,
            () = self.busy.aborted() => return Err(errors::destroyed()),
        };
        match done {
            Ok(done) => Ok(done),
            Err(error) => {
                let world = &self.sandboxes.world;
                Err(world.refused(self.busy.owner(), error, operation, path).await)
            }
        }
    }

    fn now(&self) -> String {
        iso8601(self.sandboxes.clock().now_ms())
    }

    /// What is told of a file; a link is told of, not followed.
    pub async fn stat(&self, path: &[u8]) -> Result<FileInfo> {
        let operation = FileOperation::Stat;
        let path = parse(operation, path)?;
        let at = path.clone();
        self.work(operation, &path, move |workspace| workspace.stat(&at)).await
    }

    /// What lies in a directory.
    pub async fn list(&self, path: &[u8], recursive: bool, hidden: bool) -> Result<Listed> {
        let operation = FileOperation::ListDirectory;
        let path = parse(operation, path)?;
        let room = self.turn(&self.sandboxes.world().workspaces.lists).await?;
        let at = path.clone();
        let list = move |workspace: &Workspace| workspace.list(&at, recursive, hidden);
        let list = self.work(operation, &path, list).await?;
        let room = (list.files.len() > SHORT).then_some(room);
        let list = ListFilesResult {
            success: true,
            path: path.to_string(),
            count: list.files.len() as u64,
            files: list.files,
            truncated: list.truncated,
            timestamp: self.now(),
        };
        Ok(Listed { list, room })
    }

    /// Deletes a file, or with `recursive` a directory.
    pub async fn delete(
        &self,
        path: &[u8],
        recursive: bool,
        force: bool,
    ) -> Result<DeleteFileResult> {
        let operation = FileOperation::Delete;
        let path = parse(operation, path)?;
        let at = path.clone();
        let delete = move |workspace: &Workspace| workspace.delete(&at, recursive, force);
        self.work(operation, &path, delete).await?;
        Ok(DeleteFileResult { success: true, path: path.to_string(), timestamp: self.now() })
    }

    /// Makes a directory, moves, copies, asks. The request is valid.
    pub async fn change(&self, request: FilesRequest) -> Result<FilesResult> {
        let operation = match request.op {
            FilesOp::Mkdir => FileOperation::CreateDirectory,
            FilesOp::Move => FileOperation::Move,
            FilesOp::Rename => FileOperation::Rename,
            FilesOp::Copy => FileOperation::Copy,
            FilesOp::Exists => FileOperation::Stat,
        };
        let path = parse(operation, &bytes("path", request.path, request.path_base64)?)?;
        let two = matches!(request.op, FilesOp::Move | FilesOp::Rename | FilesOp::Copy);
        let to = match two {
            true => {
                let to = bytes("newPath", request.new_path, request.new_path_base64)?;
                Some(parse(operation, &to)?)
            }
            false => None,
        };
        let recursive = request.recursive.unwrap_or(false);
        let overwrite = request.overwrite.unwrap_or(true);
        let (op, at, target) = (request.op, path.clone(), to.clone().unwrap_or_default());
        let change = move |workspace: &Workspace| match op {
            FilesOp::Mkdir => workspace.mkdir(&at, recursive).map(|()| None),
            FilesOp::Move | FilesOp::Rename => {
                workspace.rename(&at, &target, overwrite).map(|()| None)
            }
            FilesOp::Copy => workspace.copy(&at, &target, recursive, overwrite).map(|()| None),
            FilesOp::Exists => workspace.exists(&at).map(Some),
        };
        let mut exists = self.work(operation, &path, change).await;
        if let (Err(error), Some(to)) = (&mut exists, &to) {
            error.context.insert("newPath".to_owned(), to.to_string().into());
        }
        Ok(FilesResult {
            success: true,
            path: path.to_string(),
            new_path: to.map(|to| to.to_string()),
            recursive: (op == FilesOp::Mkdir).then_some(recursive),
            exists: exists?,
            timestamp: self.now(),
        })
    }
}

/// A path that a caller gave. Errors: `PERMISSION_DENIED`, `VALIDATION_FAILED`.
fn parse(operation: FileOperation, path: &[u8]) -> Result<FilePath> {
    FilePath::parse(path).map_err(|error| {
        let shown: String = workspace::shown(path).chars().take(4096).collect();
        let mut error = error.public(operation, &FilePath::root());
        error.message = error.message.replacen("/workspace", &shown, 1);
        error.with("path", shown)
    })
}

fn bytes(field: &str, text: Option<String>, base64: Option<String>) -> Result<Vec<u8>> {
    match (text, base64) {
        (Some(text), _) => Ok(text.into_bytes()),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map_err(|_| Error::invalid(&format!("{field}Base64"), "it is no base64")),
        (None, None) => Err(Error::invalid(field, format!("{field} is missing"))),
    }
}
