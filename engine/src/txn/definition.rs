//! Definitions of trees in the log.

use super::Ledger;
use crate::catalog::{Definition, DefinitionLog, Place};
use crate::error::Result;
use crate::log::ops::Op;
use crate::log::{RecordKind, Reserved};
use std::cell::Cell;

/// The log, for definitions; remembers where the last one ends.
#[derive(Debug)]
pub(crate) struct Defining<'a> {
    ledger: &'a Ledger,
    lsn: Cell<u64>,
    end: Cell<u64>,
}

/// A place in it.
#[derive(Debug)]
pub(crate) struct Defined<'a> {
    reserved: Reserved<'a>,
    ops: Vec<u8>,
}

impl Place for Defined<'_> {
    fn lsn(&self) -> u64 {
        self.reserved.lsn()
    }

    fn done(self) {
        self.reserved.copy(RecordKind::Commit, &[&self.ops]).applied();
    }
}

impl<'a> DefinitionLog for Defining<'a> {
    type Place = Defined<'a>;

    fn reserve(&self, definition: Definition<'_>) -> Result<Defined<'a>> {
        let mut ops = Vec::new();
        let op = match definition {
            Definition::Create(tree, name) => Op::Create { tree, name: name.as_bytes() },
            Definition::Drop(tree) => Op::Drop { tree },
            Definition::Rename(tree, name) => Op::Rename { tree, name: name.as_bytes() },
            Definition::Clear(tree) => Op::Clear { tree },
            Definition::Fill(tree) => Op::Fill { tree },
        };
        op.encode_into(&mut ops);
        let reserved = self.ledger.log.reserve(ops.len() as u32)?;
        self.lsn.set(reserved.lsn());
        self.end.set(reserved.end());
        Ok(Defined { reserved, ops })
    }
}

impl Ledger {
    /// For a definition that is about to be made.
    pub(crate) fn defining(&self) -> Defining<'_> {
        Defining { ledger: self, lsn: Cell::new(0), end: Cell::new(0) }
    }
}

impl Defining<'_> {
    /// Lsn of the last definition; 0 if there was none.
    pub(super) fn lsn(&self) -> u64 {
        self.lsn.get()
    }

    /// End of the last definition's record; 0 if there was none.
    pub(crate) fn end(&self) -> u64 {
        self.end.get()
    }
}
