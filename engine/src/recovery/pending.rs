//! Changes that were read and are not applied yet.
//!
//! A log has them in the order of commits, which is any order of keys. Gathered, sorted, and each key once with what
//! was said of it last, they are applied leaf by leaf: a leaf is come down to, brought in and written back once
//! for all of its changes instead of once for each.
//!
//! * [G1] What is gathered is applied before anything that changes trees as a whole, so each change meets the tree
//!   that it met when it was committed.
//! * [G2] The leaves of the changes that come next are read ahead by a thread of its own while others are applied. It
//!   changes nothing and reports nothing, so what is applied does not hang on it.

use crate::btree::{Applying, Btree, TreeCore, Unversioned};
use crate::error::Result;
use crate::id::TreeId;
use crate::pool::Pool;
use std::sync::{Arc, mpsc};
use std::thread;

/// Bytes of keys and values that are gathered at most, and one change.
const BYTES_MAX: usize = 32 << 20;
/// Changes that are gathered at most: 12 MiB of entries.
const CHANGES_MAX: usize = 1 << 18;
/// Changes of a tree that are staged together, and whose leaves are read ahead together.
const STAGED: usize = 1 << 12;
/// Read ahead of the changes that are applied, at most one page in so many frames.
const AHEAD_FRACTION: usize = 8;

struct Entry {
    tree: TreeId,
    /// First bytes of the key, which decide most comparisons.
    head: u64,
    /// Where the key is, and behind it the value. Ascends with the order of commits, and no two have the same.
    start: usize,
    key_len: u32,
    /// `None`: the key goes.
    value_len: Option<u32>,
    lsn: u64,
}

/// See the module head.
pub(super) struct Pending {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Pending {
    /// Nothing, with room for what a log of so many bytes may have.
    pub(super) fn of_log(log_bytes: u64) -> Pending {
        let bytes = log_bytes.min(BYTES_MAX as u64) as usize;
        Pending { bytes: Vec::with_capacity(bytes), entries: Vec::new() }
    }

    pub(super) fn push(&mut self, lsn: u64, tree: TreeId, key: &[u8], value: Option<&[u8]>) {
        let mut head = [0; 8];
        let len = key.len().min(8);
        head[..len].copy_from_slice(&key[..len]);
        self.entries.push(Entry {
            tree,
            head: u64::from_be_bytes(head),
            start: self.bytes.len(),
            key_len: key.len() as u32,
            value_len: value.map(|value| value.len() as u32),
            lsn,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        if self.bytes.len() == self.entries.last().map_or(0, |entry| entry.start) {
            // Neither has a byte: the next entry would start where this one does.
            self.bytes.push(0);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BYTES_MAX || self.entries.len() >= CHANGES_MAX
    }

    /// Applies all of it, and is empty then. `find` gives the trees; `None`: dropped.
    ///
    /// # Errors
    /// Those of the tree; some of it may be applied then.
    pub(super) fn apply(
        &mut self,
        pool: &Pool,
        mut find: impl FnMut(TreeId) -> Result<Option<Arc<TreeCore>>>,
    ) -> Result<()> {
        let bytes = &self.bytes;
        let entries = &mut self.entries;
        entries.sort_unstable_by(|a, b| {
            let by_key = || key(bytes, a).cmp(key(bytes, b));
            (a.tree, a.head).cmp(&(b.tree, b.head)).then_with(by_key).then(a.start.cmp(&b.start))
        });
        for of_tree in entries.chunk_by(|a, b| a.tree == b.tree) {
            if let Some(core) = find(of_tree[0].tree)? {
                let last =
                    of_tree.chunk_by(|a, b| a.head == b.head && key(bytes, a) == key(bytes, b));
                let last: Vec<&Entry> = last.filter_map(<[Entry]>::last).collect();
                apply(pool, &core, bytes, &last)?;
            }
        }
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * BYTES_MAX);
        Ok(())
    }
}

fn key<'a>(bytes: &'a [u8], entry: &Entry) -> &'a [u8] {
    &bytes[entry.start..][..entry.key_len as usize]
}

/// Applies changes of a tree, ascending and each key once.
fn apply(pool: &Pool, core: &TreeCore, bytes: &[u8], entries: &[&Entry]) -> Result<()> {
    let parts: Vec<&[&Entry]> = entries.chunks(STAGED).collect();
    thread::scope(|scope| {
        let (name, named) = mpsc::sync_channel::<&[&Entry]>(1);
        let read = move || {
            let pages_max = pool.frame_count() / AHEAD_FRACTION;
            for part in named {
                Btree::new(pool, core).read_leaves(part, |entry| key(bytes, entry), pages_max);
            }
        };
        if parts.len() > 1 {
            // Without the thread the leaves are read ahead all the same, but waited for.
            let _ = thread::Builder::new().spawn_scoped(scope, read);
        }
        for (at, part) in parts.iter().enumerate() {
            if let Some(next) = parts.get(at + 1) {
                // [G2]: a reader that is still busy is not waited for.
                let _ = name.try_send(next);
            }
            apply_part(pool, core, bytes, part)?;
        }
        Ok(())
    })
}

fn apply_part(pool: &Pool, core: &TreeCore, bytes: &[u8], entries: &[&Entry]) -> Result<()> {
    let tree = Btree::new(pool, core);
    let mut changes = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = key(bytes, entry);
        let value = entry.value_len.map(|len| &bytes[entry.start + key.len()..][..len as usize]);
        let value = match value {
            Some(value) => Some(tree.stage(key, value)?),
            None => {
                tree.check_key(key)?;
                None
            }
        };
        changes.push(Applying { key, value, place: None });
    }
    let mut ahead = tree.ahead();
    let mut done = 0;
    while done < changes.len() {
        ahead.come_to(done, &changes, |change| change.key);
        done +=
            tree.apply(&changes[done..], &mut |at| Unversioned { lsn: entries[done + at].lsn })?;
    }
    Ok(())
}
