//! Which watch is on which directory: a tree of names, so that a move is one change.

use std::collections::HashMap;

/// Longest way up; what is longer is a knot.
const DEPTH: usize = 65_536;

/// The directory above, and the name there; `None`: the watched one itself.
type Link = Option<(i32, Vec<u8>)>;

#[derive(Default)]
pub(super) struct Dirs {
    links: HashMap<i32, Link>,
    children: HashMap<(i32, Vec<u8>), i32>,
}

impl Dirs {
    pub fn len(&self) -> usize {
        self.links.len()
    }

    pub fn has(&self, wd: i32) -> bool {
        self.links.contains_key(&wd)
    }

    pub fn is_root(&self, wd: i32) -> bool {
        matches!(self.links.get(&wd), Some(None))
    }

    /// Forgets all; the watches that there were.
    pub fn clear(&mut self) -> Vec<i32> {
        self.children.clear();
        self.links.drain().map(|(wd, _)| wd).collect()
    }

    /// A watch, where it may have been elsewhere before.
    pub fn insert(&mut self, wd: i32, link: Link) {
        if self.is_root(wd) && link.is_some() {
            return;
        }
        self.remove(wd);
        if let Some(key) = &link {
            self.children.insert(key.clone(), wd);
        }
        self.links.insert(wd, link);
    }

    pub fn remove(&mut self, wd: i32) {
        if let Some(Some(key)) = self.links.remove(&wd)
            && self.children.get(&key) == Some(&wd)
        {
            self.children.remove(&key);
        }
    }

    /// A directory was moved; `false`: it had no watch.
    pub fn rename(&mut self, from: i32, old: &[u8], to: i32, new: &[u8]) -> bool {
        match self.children.get(&(from, old.to_vec())).copied() {
            Some(wd) => {
                self.insert(wd, Some((to, new.to_vec())));
                true
            }
            None => false,
        }
    }

    /// Forgets a directory and all below it; the watches that there were.
    pub fn remove_tree(&mut self, parent: i32, name: &[u8]) -> Vec<i32> {
        let Some(top) = self.children.get(&(parent, name.to_vec())).copied() else {
            return Vec::new();
        };
        let below: Vec<i32> =
            self.links.keys().copied().filter(|wd| self.way(*wd).any(|on| on == top)).collect();
        for wd in &below {
            self.remove(*wd);
        }
        below
    }

    /// From a directory up, itself first.
    fn way(&self, wd: i32) -> impl Iterator<Item = i32> + '_ {
        let above = |wd: &i32| self.links.get(wd)?.as_ref().map(|(above, _)| *above);
        std::iter::successors(Some(wd), above).take(DEPTH)
    }

    /// The path of a directory, or of a name in it, from the watched one on; `None`: it is not
    /// below it any more.
    pub fn path(&self, wd: i32, name: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut names = Vec::from_iter(name);
        let mut here = wd;
        while let Some((above, name)) = self.links.get(&here)? {
            names.push(name);
            here = *above;
            if names.len() > DEPTH {
                return None;
            }
        }
        names.reverse();
        Some(names.join(&b'/'))
    }
}
