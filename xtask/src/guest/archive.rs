//! A cpio archive of the form that the kernel unpacks ("newc").

use std::collections::BTreeSet;

/// An archive that grows.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    directories: BTreeSet<String>,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_777;

impl Archive {
    /// Adds a directory; its parent must be there.
    pub fn directory(&mut self, name: &str) {
        if self.directories.insert(name.to_owned()) {
            self.entry(name, DIRECTORY, &[]);
        }
    }

    /// Adds the directories that lead to `name`.
    pub fn parents(&mut self, name: &str) {
        for (end, _) in name.match_indices('/') {
            self.directory(&name[..end]);
        }
    }

    /// Adds a file that may be executed.
    pub fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, content);
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, name: &str, target: &str) {
        self.entry(name, SYMLINK, target.as_bytes());
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        // Magic, then thirteen numbers: inode, mode, uid, gid, links, mtime, size, device of
        // the file (2), device that it stands for (2), length of the name, checksum.
        let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (size, name_size) = (length(content.len()), length(name.len() + 1));
        let numbers = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend(b"070701");
        for number in numbers {
            self.bytes.extend(format!("{number:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
