//! Snapshots that are held, what is read as durable, and the database as it is.

use super::{Held, Live, Said};
use crate::image::is_of_disk;
use crate::oracle::{State, read};
use latchkv::{Error, ReadAt, Snapshot, Usage};
use std::sync::Arc;

impl Live {
    pub(super) fn hold_snapshot(&mut self) -> Said {
        let taken = self.db().snapshot().map(Snapshot::into_owned);
        match taken {
            Ok(snapshot) => {
                let state = self.oracle.state();
                let trees = self.handles.iter();
                let trees =
                    trees.map(|(name, tree)| (tree.clone(), Arc::clone(&state.trees[name])));
                let trees = trees.collect();
                self.held.push(Held { snapshot, trees });
                Ok(())
            }
            Err(error) => self.failed("snapshot", &error, None, 0),
        }
    }

    pub(super) fn look_at_snapshots(&self) -> Said {
        for held in &self.held {
            for (tree, content) in &held.trees {
                let entries: latchkv::Result<Vec<_>> = held.snapshot.iter(tree).collect();
                match entries {
                    Ok(entries) => {
                        let is_same = entries.len() == content.len()
                            && entries.iter().zip(content.iter()).all(|(entry, (key, value))| {
                                entry.key() == &**key && entry.value() == &**value
                            });
                        if !is_same {
                            return Err("a snapshot gave something else".into());
                        }
                    }
                    Err(Error::Usage(Usage::ClearedSince | Usage::TreeDropped(_))) => {}
                    Err(error) if self.is_faulty && is_of_disk(&error) => {}
                    Err(error) => return Err(format!("a snapshot: {error}")),
                }
            }
        }
        Ok(())
    }

    /// What is read as durable no crash may take back.
    pub(super) fn look_at_durable(&mut self) -> Said {
        let taken = self.db().snapshot_at(ReadAt::Durable, None).map(Snapshot::into_owned);
        let snapshot = match taken {
            Ok(snapshot) => snapshot,
            Err(error) => return self.failed("a durable snapshot", &error, None, 0),
        };
        let mut state = State::default();
        for (name, tree) in &self.handles {
            let entries: latchkv::Result<Vec<_>> = snapshot.iter(tree).collect();
            // Definitions are not versioned.
            let Ok(entries) = entries else { return Ok(()) };
            let pairs = entries.iter().map(|entry| (entry.key().into(), entry.value().into()));
            state.trees.insert(Arc::clone(name), Arc::new(pairs.collect()));
        }
        let at = self.now();
        drop(snapshot);
        if !self.oracle.saw_durable(&state, at) {
            return Err("what is read as durable is no state since the last sync".into());
        }
        Ok(())
    }

    pub(super) fn look(&mut self) -> Said {
        match read(self.db()) {
            Ok(found) if found == *self.oracle.state() => Ok(()),
            Ok(found) => {
                let difference = self.oracle.state().difference(&found);
                Err(format!("the database holds something else: {difference}"))
            }
            // A planned failure of a read; it is met by this.
            Err(_) if self.is_faulty => Ok(()),
            Err(said) => Err(said),
        }
    }
}
