//! The calls, made as a guest makes them: through a memory.

mod hostile;
mod kept;
mod links;
mod names;
mod nonsense;
mod room;

use super::errno::Errno;
use super::mem::Mem;
use super::rights;
use super::{Clocks, Places, SavedFd, Wasi};
use std::path::PathBuf;

const WORKSPACE: u32 = 3;
const TMP: u32 = 4;
const ROOT: u32 = 5;
const DEV: u32 = 6;
const LIB: u32 = 7;

const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

/// Where the test's memory has what: paths, buffers, answers.
const PATH: u32 = 0;
const OTHER: u32 = 8192;
const BUFFER: u32 = 16384;
const ANSWER: u32 = 12000;
const VECS: u32 = 12100;

struct Sys {
    wasi: Wasi,
    mem: Vec<u8>,
    dir: tempfile::TempDir,
}

fn places(dir: &std::path::Path) -> Places {
    let open = |name: &str| Places::open(&dir.join(name)).expect("a directory");
    Places::new(open("workspace"), open("tmp"), [("/lib".to_owned(), open("lib"))])
}

impl Sys {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["workspace", "tmp", "lib", "outside"] {
            std::fs::create_dir(dir.path().join(name)).expect("mkdir");
        }
        std::fs::write(dir.path().join("outside/secret"), "secret").expect("write");
        std::fs::write(dir.path().join("lib/module"), "module").expect("write");
        Sys { wasi: Wasi::new(places(dir.path())), mem: vec![0; 1 << 20], dir }
    }

    /// The same directories after a restore.
    fn restored(self) -> Self {
        let saved: Vec<SavedFd> = {
            let text = serde_json::to_string(&self.wasi.save()).expect("JSON");
            serde_json::from_str(&text).expect("the same")
        };
        let wasi = Wasi::restore(places(self.dir.path()), &saved, Clocks::resume(0, 0));
        Sys { wasi, ..self }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn put(&mut self, at: u32, bytes: &[u8]) -> (u32, u32) {
        self.mem[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        (at, bytes.len() as u32)
    }

    fn answer(&self) -> u32 {
        let at = ANSWER as usize;
        u32::from_le_bytes(self.mem[at..at + 4].try_into().expect("four bytes"))
    }

    fn open_as(
        &mut self,
        from: u32,
        path: &[u8],
        oflags: u32,
        rights: u64,
        flags: u32,
    ) -> Result<u32, Errno> {
        let (at, len) = self.put(PATH, path);
        let mut mem = Mem(&mut self.mem);
        let all = rights::ALL;
        self.wasi.path_open(&mut mem, from, 1, at, len, oflags, rights, all, flags, ANSWER)?;
        Ok(self.answer())
    }

    fn open(&mut self, path: &str, oflags: u32) -> Result<u32, Errno> {
        let all = if oflags & DIRECTORY == 0 { rights::ALL } else { rights::READDIR };
        self.open_as(WORKSPACE, path.as_bytes(), oflags, all, 0)
    }

    fn read_only(&mut self, path: &[u8]) -> Result<u32, Errno> {
        self.open_as(WORKSPACE, path, 0, rights::READING | rights::SEEK, 0)
    }

    fn read(&mut self, fd: u32, len: u32) -> Result<Vec<u8>, Errno> {
        let vec = [BUFFER.to_le_bytes(), len.to_le_bytes()].concat();
        self.put(VECS, &vec);
        self.wasi.fd_read(&mut Mem(&mut self.mem), fd, VECS, 1, ANSWER)?;
        let at = BUFFER as usize;
        Ok(self.mem[at..at + self.answer() as usize].to_vec())
    }

    fn write(&mut self, fd: u32, bytes: &[u8]) -> Result<u32, Errno> {
        self.put(BUFFER, bytes);
        let vec = [BUFFER.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
        self.put(VECS, &vec);
        self.wasi.fd_write(&mut Mem(&mut self.mem), fd, VECS, 1, ANSWER)?;
        Ok(self.answer())
    }

    fn mkdir(&mut self, path: &str) -> Result<(), Errno> {
        let (at, len) = self.put(PATH, path.as_bytes());
        self.wasi.path_create_directory(&mut Mem(&mut self.mem), WORKSPACE, at, len)
    }

    fn unlink(&mut self, path: &str) -> Result<(), Errno> {
        let (at, len) = self.put(PATH, path.as_bytes());
        self.wasi.path_unlink_file(&mut Mem(&mut self.mem), WORKSPACE, at, len)
    }

    fn rmdir(&mut self, path: &str) -> Result<(), Errno> {
        let (at, len) = self.put(PATH, path.as_bytes());
        self.wasi.path_remove_directory(&mut Mem(&mut self.mem), WORKSPACE, at, len)
    }

    fn symlink(&mut self, target: &str, path: &str) -> Result<(), Errno> {
        let (to, to_len) = self.put(OTHER, target.as_bytes());
        let (at, len) = self.put(PATH, path.as_bytes());
        self.wasi.path_symlink(&mut Mem(&mut self.mem), to, to_len, WORKSPACE, at, len)
    }

    fn link(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        let (to, to_len) = self.put(OTHER, old.as_bytes());
        let (at, len) = self.put(PATH, new.as_bytes());
        let mut mem = Mem(&mut self.mem);
        self.wasi.path_link(&mut mem, WORKSPACE, 0, to, to_len, WORKSPACE, at, len)
    }

    fn rename(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        let (to, to_len) = self.put(OTHER, old.as_bytes());
        let (at, len) = self.put(PATH, new.as_bytes());
        self.wasi.path_rename(&mut Mem(&mut self.mem), WORKSPACE, to, to_len, WORKSPACE, at, len)
    }

    fn readlink(&mut self, path: &str) -> Result<Vec<u8>, Errno> {
        let (at, len) = self.put(PATH, path.as_bytes());
        let mut mem = Mem(&mut self.mem);
        self.wasi.path_readlink(&mut mem, WORKSPACE, at, len, BUFFER, 4096, ANSWER)?;
        let at = BUFFER as usize;
        Ok(self.mem[at..at + self.answer() as usize].to_vec())
    }

    /// Kind and size of what a path names.
    fn stat(&mut self, from: u32, path: &str, follow: u32) -> Result<(u8, u64), Errno> {
        let (at, len) = self.put(PATH, path.as_bytes());
        self.wasi.path_filestat_get(&mut Mem(&mut self.mem), from, follow, at, len, BUFFER)?;
        let at = BUFFER as usize;
        let size = self.mem[at + 32..at + 40].try_into().expect("eight bytes");
        Ok((self.mem[at + 16], u64::from_le_bytes(size)))
    }

    fn seek(&mut self, fd: u32, delta: i64, whence: u32) -> Result<u32, Errno> {
        self.wasi.fd_seek(&mut Mem(&mut self.mem), fd, delta, whence, ANSWER)?;
        Ok(self.answer())
    }

    fn close(&mut self, fd: u32) -> Result<(), Errno> {
        self.wasi.fd_close(&mut Mem(&mut self.mem), fd)
    }

    /// Names of a directory, read with a buffer of this size.
    fn list(&mut self, fd: u32, buffer: u32) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        let mut cookie = 0u64;
        loop {
            self.wasi.fd_readdir(&mut Mem(&mut self.mem), fd, BUFFER, buffer, cookie, ANSWER)?;
            let used = self.answer() as usize;
            let bytes = &self.mem[BUFFER as usize..BUFFER as usize + used];
            let mut at = 0;
            let mut progress = false;
            while at + 24 <= used {
                let next = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
                let len = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().expect("four"));
                let end = at + 24 + len as usize;
                if end > used {
                    break;
                }
                names.push(bytes[at + 24..end].to_vec());
                (at, cookie, progress) = (end, next, true);
            }
            if used < buffer as usize {
                return Ok(names);
            }
            assert!(progress, "a buffer of {buffer} bytes holds no entry");
        }
    }
}
