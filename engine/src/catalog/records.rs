//! The catalog's records as bytes.

use crate::btree::{Batch, Btree, Cursor, Edge, View};
use crate::error::Result;
use crate::id::{PageId, TreeId};
use std::ops::Bound;

const NAME: u8 = b'n';
const DROPPING: u8 = b'd';

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) tree: TreeId,
    pub(super) root: PageId,
}

impl Record {
    pub(super) fn encode(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.tree.0.to_le_bytes());
        bytes[4..].copy_from_slice(&self.root.0.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        let bytes: &[u8; 12] = bytes.try_into().ok()?;
        let tree = TreeId(u32::from_le_bytes(*bytes.first_chunk()?));
        let root = PageId(u64::from_le_bytes(*bytes.last_chunk()?));
        let plausible = tree != TreeId::CATALOG && root > PageId::CATALOG && root <= PageId::MAX;
        plausible.then_some(Record { tree, root })
    }
}

pub(super) fn name_key(name: &str) -> Vec<u8> {
    [&[NAME], name.as_bytes()].concat()
}

pub(super) fn dropping_key(root: PageId) -> Vec<u8> {
    [[DROPPING].as_slice(), &root.0.to_be_bytes()].concat()
}

/// What one record says.
#[derive(Debug)]
pub(super) enum Meaning {
    /// A name and what it stands for.
    Name(String, Record),
    /// A tree is being taken apart.
    Dropping(TreeId, PageId),
}

/// Reads a record. `None`: it makes no sense.
pub(super) fn meaning(key: &[u8], value: &[u8]) -> Option<Meaning> {
    match key.split_first()? {
        (&NAME, name) => {
            let name = std::str::from_utf8(name).ok()?.to_owned();
            Some(Meaning::Name(name, Record::decode(value)?))
        }
        (&DROPPING, root) => {
            let root = PageId(u64::from_be_bytes(root.try_into().ok()?));
            Some(Meaning::Dropping(TreeId(u32::from_le_bytes(value.try_into().ok()?)), root))
        }
        _ => None,
    }
}

fn each(tree: Btree<'_>, kind: u8, mut f: impl FnMut(&[u8], &[u8])) -> Result<()> {
    let mut cursor = Cursor::new(Edge::Front, Bound::Included(vec![kind]));
    let until = [kind + 1];
    let mut batch = Batch::default();
    loop {
        tree.next_batch(&mut cursor, Bound::Excluded(&until), View::Latest, &mut batch)?;
        if batch.len() == 0 {
            return Ok(());
        }
        for at in 0..batch.len() {
            let item = batch.item(at);
            f(batch.key(item), batch.payload(item));
        }
    }
}

/// Every name. Records that make no sense are left to the checker.
pub(super) fn each_name(tree: Btree<'_>, mut f: impl FnMut(String, Record)) -> Result<()> {
    each(tree, NAME, |key, value| {
        if let Some(Meaning::Name(name, record)) = meaning(key, value) {
            f(name, record);
        }
    })
}

/// Every tree that is being taken apart.
pub(super) fn each_dropping(tree: Btree<'_>, mut f: impl FnMut(TreeId, PageId)) -> Result<()> {
    each(tree, DROPPING, |key, value| {
        if let Some(Meaning::Dropping(tree, root)) = meaning(key, value) {
            f(tree, root);
        }
    })
}
