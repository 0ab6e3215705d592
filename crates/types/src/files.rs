//! Files below `/workspace`: requests, results, what is told of a file, events of a watch.
//!
//! A path is absolute below `/workspace`, or relative to it. Names are bytes: where they are no
//! UTF-8, text shows each such byte as `\xNN` and a backslash as `\\`, and a field beside it has
//! the bytes in base64.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// What is done with a file, as errors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum FileOperation {
    /// Reading bytes.
    #[serde(rename = "file.read")]
    Read,
    /// Writing bytes.
    #[serde(rename = "file.write")]
    Write,
    /// Deleting a file or a tree.
    #[serde(rename = "file.delete")]
    Delete,
    /// Moving.
    #[serde(rename = "file.move")]
    Move,
    /// Renaming, which is moving.
    #[serde(rename = "file.rename")]
    Rename,
    /// Copying.
    #[serde(rename = "file.copy")]
    Copy,
    /// Looking at one.
    #[serde(rename = "file.stat")]
    Stat,
    /// Making a directory.
    #[serde(rename = "directory.create")]
    CreateDirectory,
    /// Listing a directory.
    #[serde(rename = "directory.list")]
    ListDirectory,
    /// Watching for changes.
    #[serde(rename = "directory.watch")]
    Watch,
    /// Reading a tree as a tar archive.
    #[serde(rename = "archive.read")]
    ReadArchive,
    /// Unpacking a tar archive.
    #[serde(rename = "archive.write")]
    WriteArchive,
}

impl FileOperation {
    /// As it is written in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "file.read",
            Self::Write => "file.write",
            Self::Delete => "file.delete",
            Self::Move => "file.move",
            Self::Rename => "file.rename",
            Self::Copy => "file.copy",
            Self::Stat => "file.stat",
            Self::CreateDirectory => "directory.create",
            Self::ListDirectory => "directory.list",
            Self::Watch => "directory.watch",
            Self::ReadArchive => "archive.read",
            Self::WriteArchive => "archive.write",
        }
    }
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileType {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; it is told of, not followed.
    Symlink,
    /// A FIFO, a socket, a device: neither read nor written here.
    Other,
}

/// What the sandbox's own root may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FilePermissions {
    /// Whether it can be read here: plain files and directories.
    pub readable: bool,
    /// Whether it can be written here: plain files and directories.
    pub writable: bool,
    /// Whether somebody may execute it; for directories: enter them.
    pub executable: bool,
}

/// One entry of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// Its name.
    pub name: String,
    /// The bytes of its name, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Its path from `/workspace` on.
    pub absolute_path: String,
    /// The bytes of that path, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_path_base64: Option<String>,
    /// Its path from the listed directory; alone looked at, its name.
    pub relative_path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileType,
    /// Length, bytes; 0 for directories.
    pub size: u64,
    /// When its contents last changed, ISO 8601 in UTC.
    pub modified_at: String,
    /// Its mode, say `-rw-r--r--`.
    pub mode: String,
    /// What may be done with it.
    pub permissions: FilePermissions,
}

/// Answer of a PUT of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WriteFileResult {
    /// True.
    pub success: bool,
    /// The file's path.
    pub path: String,
    /// When, ISO 8601 in UTC.
    pub timestamp: String,
    /// Length, bytes.
    pub size: u64,
    /// Whether it was not there before.
    pub created: bool,
}

/// Answer of a DELETE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DeleteFileResult {
    /// True.
    pub success: bool,
    /// What was deleted.
    pub path: String,
    /// When, ISO 8601 in UTC.
    pub timestamp: String,
}

/// Answer of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ListFilesResult {
    /// True.
    pub success: bool,
    /// The directory.
    pub path: String,
    /// What lies in it, ordered by the bytes of the path.
    pub files: Vec<FileInfo>,
    /// How many these are.
    pub count: u64,
    /// There is more than a list may hold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// When, ISO 8601 in UTC.
    pub timestamp: String,
}

/// Answer of a PUT of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UnpackResult {
    /// True.
    pub success: bool,
    /// The directory that it was unpacked in.
    pub path: String,
    /// Entries that were unpacked.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// When, ISO 8601 in UTC.
    pub timestamp: String,
}

/// What `POST …/files` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilesOp {
    /// Makes a directory.
    Mkdir,
    /// Moves a file or a directory.
    Move,
    /// The same.
    Rename,
    /// Copies a file or, recursively, a directory.
    Copy,
    /// Tells whether it is there; links are followed.
    Exists,
}

/// Body of `POST /v1/sandboxes/{id}/files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilesRequest {
    /// What to do.
    pub op: FilesOp,
    /// With what; absolute below `/workspace`, or relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The same as bytes in base64, for names that are no UTF-8. One of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Where to: of `move`, `rename` and `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_path: Option<String>,
    /// The same as bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_path_base64: Option<String>,
    /// `mkdir`: makes parents too, and takes an existing directory; `copy`: takes directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// `move`, `rename`, `copy`: whether what is at `newPath` may be replaced; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

impl FilesRequest {
    /// Checks which fields go together. Errors: `VALIDATION_FAILED` of the field.
    pub fn validate(&self) -> Result<()> {
        let two = matches!(self.op, FilesOp::Move | FilesOp::Rename | FilesOp::Copy);
        one_of("path", self.path.as_deref(), self.path_base64.as_deref())?;
        if two {
            one_of("newPath", self.new_path.as_deref(), self.new_path_base64.as_deref())?;
        }
        let stray = [
            ("newPath", !two && self.new_path.is_some()),
            ("newPathBase64", !two && self.new_path_base64.is_some()),
            ("overwrite", !two && self.overwrite.is_some()),
            (
                "recursive",
                !matches!(self.op, FilesOp::Mkdir | FilesOp::Copy) && self.recursive.is_some(),
            ),
        ];
        match stray.into_iter().find(|(_, stray)| *stray) {
            None => Ok(()),
            Some((field, _)) => Err(Error::invalid(field, format!("{field} says nothing here"))),
        }
    }
}

/// Exactly one of a path and its bytes, and not an empty one.
fn one_of(field: &str, text: Option<&str>, base64: Option<&str>) -> Result<()> {
    let other = format!("{field}Base64");
    match (text, base64) {
        (Some(""), None) => Err(Error::invalid(field, format!("{field} must not be empty"))),
        (Some(_), None) => Ok(()),
        (None, Some(bytes)) if !bytes.is_empty() && crate::exec::is_base64(bytes) => Ok(()),
        (None, Some(_)) => {
            let rule = "must be base64 in the standard alphabet, padded, and not empty";
            Err(Error::invalid(&other, format!("{other} {rule}")))
        }
        (None, None) => Err(Error::invalid(field, format!("{field} is missing"))),
        (Some(_), Some(_)) => {
            Err(Error::invalid(&other, format!("{field} and {other} are given: one is enough")))
        }
    }
}

/// Answer of `POST /v1/sandboxes/{id}/files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilesResult {
    /// True.
    pub success: bool,
    /// With what.
    pub path: String,
    /// Where to: of `move`, `rename` and `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_path: Option<String>,
    /// Whether parents were to be made: of `mkdir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Whether it is there: of `exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// When, ISO 8601 in UTC.
    pub timestamp: String,
}

/// One event of a watch. After `overflow` and `limit`, list anew to know what is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WatchEvent {
    /// What changes from now on is told.
    Ready {
        /// The watched path.
        path: String,
    },
    /// Something is new. A new directory's contents may be told twice.
    Created {
        /// Its path.
        path: String,
        /// Its bytes, where they are no UTF-8.
        #[serde(default, rename = "pathBase64", skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Contents changed.
    Modified {
        /// Its path.
        path: String,
        /// Its bytes, where they are no UTF-8.
        #[serde(default, rename = "pathBase64", skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
    },
    /// Mode, owner or times changed.
    Attributes {
        /// Its path.
        path: String,
        /// Its bytes, where they are no UTF-8.
        #[serde(default, rename = "pathBase64", skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Something is gone, or was moved to where nobody watches.
    Deleted {
        /// Its path.
        path: String,
        /// Its bytes, where they are no UTF-8.
        #[serde(default, rename = "pathBase64", skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
        /// Whether it was a directory.
        directory: bool,
    },
    /// Something was moved within what is watched.
    Moved {
        /// Its old path.
        path: String,
        /// Its bytes, where they are no UTF-8.
        #[serde(default, rename = "pathBase64", skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
        /// Its new path.
        #[serde(rename = "newPath")]
        new_path: String,
        /// Its bytes, where they are no UTF-8.
        #[serde(default, rename = "newPathBase64", skip_serializing_if = "Option::is_none")]
        new_path_base64: Option<String>,
        /// Whether it is a directory.
        directory: bool,
    },
    /// More changed than could be kept: events are missing here.
    Overflow,
    /// There are more directories than can be watched: some are not.
    Limit {
        /// How many are watched at most.
        directories: u64,
    },
    /// The watched path is gone, or the sandbox was destroyed; nothing follows.
    Gone,
}
