//! Which trees there are: name -> id and root page, kept in a tree of its own.
//!
//! The catalog tree has id 0 and root page 1. Its records, values little-endian:
//!
//! ```text
//! 'n' name                      ->  tree id : 4 bytes, root page : 8 bytes
//! 'd' root page : 8, big-endian ->  tree id : 4 bytes          a tree being taken apart
//! ```
//!
//! Names are looked up in an immutable map behind an epoch-protected pointer, so that opening a tree that is
//! known takes no lock; data definition (create, drop, rename, clear) goes one at a time under a mutex and
//! replaces the map.
//!
//! * [D1] What a definition changes in the catalog it changes inside the gate in one go, so a checkpoint has
//!   all of it or nothing.
//! * [D2] A dropped or cleared tree's pages are freed step by step afterwards. Until the last is free a 'd'
//!   record names what is left, and opening the database goes on with it.
//! * [D3] Lock order: `definitions`, gate, `lengths`. A checkpoint takes `lengths` alone, with the gate
//!   closed.
//!
//! Tested through the public API by `engine/tests`: `model` and `open` for what definitions do, `concurrent`
//! for definitions among writers, `crash` for [D2].

mod definition;
mod records;
mod registry;
mod salvage;

pub(crate) use salvage::CatalogSalvage;

pub(crate) use definition::{Definition, DefinitionLog, Place, Replayed};

use crate::btree::{Btree, Content, TreeCore, Unversioned};
use crate::error::{Error, Result, Usage};
use crate::id::{PageId, TreeId};
use crate::name::NameRef;
use crate::pool::Pool;
use latchkv_latch::primitives::{AtomicU32, Ordering};
use records::Record;
use registry::Registry;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The trees of one database.
#[derive(Debug)]
pub(crate) struct Catalog {
    core: TreeCore,
    /// The catalog's root page exists. False only in a database that was killed between its making and its
    /// first checkpoint and is now open for reading.
    present: bool,
    registry: Registry,
    next_tree: AtomicU32,
    /// Length of each tree whose core is not in the registry; as of the checkpoint that was opened.
    lengths: Mutex<BTreeMap<TreeId, u64>>,
    definitions: Mutex<()>,
    /// Trees that a crash or a full disk left half taken apart; as of the checkpoint that was opened. Drops
    /// of this process finish on their own and are never among them.
    interrupted: Mutex<Vec<(TreeId, PageId)>>,
}

impl Catalog {
    /// Opens the catalog of the pool's store, making it in a new one.
    pub(crate) fn open(pool: &Pool) -> Result<Catalog> {
        let store = pool.store();
        let mut lengths: BTreeMap<TreeId, u64> = store.lengths().into_iter().collect();
        let present = store.knows(PageId::CATALOG) || !store.read_only();
        if present && !store.knows(PageId::CATALOG) {
            let mut reservation = pool.reserve(1)?;
            let root = reservation.create();
            debug_assert_eq!(root.page_id(), PageId::CATALOG);
            Btree::format_root(root.page(), root.page_id(), TreeId::CATALOG);
        }
        let length = lengths.remove(&TreeId::CATALOG).unwrap_or(0);
        let catalog = Catalog {
            core: TreeCore::new(TreeId::CATALOG, PageId::CATALOG, length),
            present,
            registry: Registry::new(),
            next_tree: AtomicU32::new(store.next_tree().0.max(1)),
            lengths: Mutex::new(lengths),
            definitions: Mutex::new(()),
            interrupted: Mutex::new(Vec::new()),
        };
        // Before anybody writes. A damaged catalog still opens: what can be read of it can be read.
        if let Ok(interrupted) = catalog.dropping(pool) {
            *catalog.interrupted() = interrupted;
        }
        Ok(catalog)
    }

    fn interrupted(&self) -> MutexGuard<'_, Vec<(TreeId, PageId)>> {
        self.interrupted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree<'p>(&'p self, pool: &'p Pool) -> Btree<'p> {
        Btree::new(pool, &self.core)
    }

    /// The catalog tree itself, for the checker.
    pub(crate) fn core(&self) -> &TreeCore {
        &self.core
    }

    fn define(&self) -> MutexGuard<'_, ()> {
        // What it guards is in the tree and the registry, which are whole after a panic.
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lengths(&self) -> MutexGuard<'_, BTreeMap<TreeId, u64>> {
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, pool: &Pool, name: NameRef<'_>) -> Result<Option<Record>> {
        if !self.present {
            return Ok(None);
        }
        let value = self.tree(pool).get_with(&records::name_key(name.as_str()), Record::decode)?;
        match value {
            None => Ok(None),
            Some(Some(record)) => Ok(Some(record)),
            Some(None) => Err(self.damaged(pool)),
        }
    }

    fn damaged(&self, pool: &Pool) -> Error {
        let expected = "id and root".to_owned();
        let error =
            pool.store().corrupt(PageId::CATALOG, "catalog record", expected, String::new());
        error.in_tree(TreeId::CATALOG)
    }

    /// The tree of that name, if there is one.
    pub(crate) fn get(&self, pool: &Pool, name: NameRef<'_>) -> Result<Option<Arc<TreeCore>>> {
        if let Some(core) = self.registry.get(name) {
            return Ok(Some(core));
        }
        let _definitions = self.define();
        self.get_defined(pool, name)
    }

    /// [`get`](Self::get), with the definitions held.
    fn get_defined(&self, pool: &Pool, name: NameRef<'_>) -> Result<Option<Arc<TreeCore>>> {
        if let Some(core) = self.registry.get(name) {
            return Ok(Some(core));
        }
        let Some(record) = self.find(pool, name)? else { return Ok(None) };
        let mut lengths = self.lengths();
        let length = lengths.remove(&record.tree).unwrap_or(0);
        let core = Arc::new(TreeCore::new(record.tree, record.root, length));
        self.registry.insert(name, Arc::clone(&core));
        drop(lengths);
        Ok(Some(core))
    }

    /// The tree of that name, made if there is none.
    pub(crate) fn get_or_create(
        &self,
        pool: &Pool,
        name: NameRef<'_>,
        log: &impl DefinitionLog,
    ) -> Result<Arc<TreeCore>> {
        if let Some(core) = self.get(pool, name)? {
            return Ok(core);
        }
        let _definitions = self.define();
        if let Some(core) = self.get_defined(pool, name)? {
            return Ok(core);
        }
        let tree = self.new_tree_id()?;
        self.create_defined(pool, tree, name, log)
    }

    /// Makes a tree, with the definitions held.
    fn create_defined(
        &self,
        pool: &Pool,
        tree: TreeId,
        name: NameRef<'_>,
        log: &impl DefinitionLog,
    ) -> Result<Arc<TreeCore>> {
        let _inside = pool.gate().enter();
        let place = log.reserve(Definition::Create(tree, name.as_str()))?;
        let mut reservation = pool.reserve(1)?;
        let root = reservation.create();
        Btree::format_root(root.page(), root.page_id(), tree);
        let root_page = root.page_id();
        drop(root);
        drop(reservation);
        let record = Record { tree, root: root_page };
        let key = records::name_key(name.as_str());
        let put = self.within_gate(pool).put(&key, &record.encode(), &mut Unversioned::unlogged());
        if let Err(error) = put {
            pool.free_unloaded(root_page);
            return Err(error);
        }
        let core = Arc::new(TreeCore::new(tree, root_page, 0));
        self.registry.insert(name, Arc::clone(&core));
        place.done();
        Ok(core)
    }

    /// Makes a tree that the log knows. Ids never come again, so one that is there already is left as it is.
    pub(crate) fn create_again(
        &self,
        pool: &Pool,
        tree: TreeId,
        name: NameRef<'_>,
        replayed: Replayed,
    ) -> Result<Arc<TreeCore>> {
        let _definitions = self.define();
        if let Some(core) = self.get_defined(pool, name)? {
            return Ok(core);
        }
        // Relaxed: only definitions change it, and they exclude each other.
        let next = self.next_tree.load(Ordering::Relaxed).max(tree.0.saturating_add(1));
        self.next_tree.store(next, Ordering::Relaxed);
        self.create_defined(pool, tree, name, &replayed)
    }

    /// The tree of that id with its name, if there is one. Looks through all of the catalog.
    pub(crate) fn by_id(
        &self,
        pool: &Pool,
        tree: TreeId,
    ) -> Result<Option<(String, Arc<TreeCore>)>> {
        let mut name = None;
        records::each_name(self.tree(pool), |found, record| {
            if record.tree == tree {
                name = Some(found);
            }
        })?;
        let Some(name) = name else { return Ok(None) };
        let core = self.get(pool, NameRef::stored(&name)?)?;
        Ok(core.map(|core| (name, core)))
    }

    /// An id that no tree of this database ever had.
    fn new_tree_id(&self) -> Result<TreeId> {
        // Relaxed: only definitions change it, and they exclude each other.
        let id = self.next_tree.load(Ordering::Relaxed);
        let Some(next) = id.checked_add(1) else {
            let source = Arc::new(std::io::ErrorKind::StorageFull.into());
            return Err(Error::Full { op: "give out a tree id", source });
        };
        self.next_tree.store(next, Ordering::Relaxed);
        Ok(TreeId(id))
    }

    fn within_gate<'p>(&'p self, pool: &'p Pool) -> Btree<'p> {
        Btree::within_gate(pool, &self.core)
    }

    /// Every name, ascending.
    pub(crate) fn names(&self, pool: &Pool) -> Result<Vec<String>> {
        let mut names = Vec::new();
        if self.present {
            records::each_name(self.tree(pool), |name, _| names.push(name))?;
        }
        Ok(names)
    }

    /// Every tree with its root and length, ascending by name; exact if the caller keeps the gate closed,
    /// which keeps definitions out too.
    pub(crate) fn trees_with_lengths(&self, pool: &Pool) -> Result<Vec<(TreeId, PageId, u64)>> {
        let mut trees = Vec::new();
        if !self.present {
            return Ok(trees);
        }
        let lengths = self.lengths();
        records::each_name(self.tree(pool), |name, record| {
            let known = NameRef::stored(&name).ok().and_then(|name| self.registry.get(name));
            let known = known.filter(|core| core.root == record.root);
            let length = known.map_or_else(
                || lengths.get(&record.tree).copied(),
                |core| Some(core.lengths.sum()),
            );
            trees.push((record.tree, record.root, length.unwrap_or(0)));
        })?;
        Ok(trees)
    }

    /// Gives a tree another name. Handles stay good.
    pub(crate) fn rename(
        &self,
        pool: &Pool,
        from: NameRef<'_>,
        to: NameRef<'_>,
        log: &impl DefinitionLog,
    ) -> Result<()> {
        let _definitions = self.define();
        let Some(core) = self.get_defined(pool, from)? else {
            return Err(Usage::NoSuchTree(from.to_string()).into());
        };
        if from == to {
            return Ok(());
        }
        if self.get_defined(pool, to)?.is_some() {
            return Err(Usage::TreeExists(to.to_string()).into());
        }
        let record = Record { tree: core.id, root: core.root };
        // [D1]: the put can fail, the delete of a record that was just read cannot but by damage.
        let _inside = pool.gate().enter();
        let place = log.reserve(Definition::Rename(core.id, to.as_str()))?;
        let tree = self.within_gate(pool);
        tree.put(&records::name_key(to.as_str()), &record.encode(), &mut Unversioned::unlogged())?;
        if let Err(error) =
            tree.delete(&records::name_key(from.as_str()), &mut Unversioned::unlogged())
        {
            // One name is better than two; the first error is the one to tell.
            let _ = tree.delete(&records::name_key(to.as_str()), &mut Unversioned::unlogged());
            return Err(error);
        }
        self.registry.remove(from);
        self.registry.insert(to, core);
        place.done();
        Ok(())
    }

    /// Drops a tree. False: there is none of that name.
    pub(crate) fn drop_tree(
        &self,
        pool: &Pool,
        name: NameRef<'_>,
        log: &impl DefinitionLog,
    ) -> Result<bool> {
        let definitions = self.define();
        let Some(core) = self.get_defined(pool, name)? else { return Ok(false) };
        {
            let _inside = pool.gate().enter();
            let place = log.reserve(Definition::Drop(core.id))?;
            let tree = self.within_gate(pool);
            let key = records::dropping_key(core.root);
            tree.put(&key, &core.id.0.to_le_bytes(), &mut Unversioned::unlogged())?;
            // If this fails the 'd' record stays beside the name, and the next opening knows what that
            // means.
            tree.delete(&records::name_key(name.as_str()), &mut Unversioned::unlogged())?;
            self.registry.remove(name);
            core.set_dropped();
            place.done();
        }
        drop(definitions);
        self.finish_drop(pool, core.id, core.root)?;
        Ok(true)
    }

    /// Removes every record of a tree. Handles stay good.
    pub(crate) fn clear(
        &self,
        pool: &Pool,
        core: &TreeCore,
        log: &impl DefinitionLog,
    ) -> Result<()> {
        self.detach(pool, core, log, Definition::Clear(core.id), None)
    }

    /// Gives a tree another content, which was built for it. Handles stay good. If it fails after a place in the log was
    /// given, the tree is neither what it was nor what it was to be.
    pub(crate) fn replace(
        &self,
        pool: &Pool,
        core: &TreeCore,
        log: &impl DefinitionLog,
        content: &Content,
    ) -> Result<()> {
        self.detach(pool, core, log, Definition::Fill(core.id), Some(content))
    }

    /// Moves the content of a tree away, puts another in its place or none, and gives the old one back.
    fn detach(
        &self,
        pool: &Pool,
        core: &TreeCore,
        log: &impl DefinitionLog,
        definition: Definition<'_>,
        instead: Option<&Content>,
    ) -> Result<()> {
        let definitions = self.define();
        // Dropped since the caller looked: the root's page id may be another tree's by now.
        Btree::new(pool, core).check_alive()?;
        // A page to move the content to, named by a record before anything moves: an empty tree of its own so
        // far.
        let moved = {
            let _inside = pool.gate().enter();
            let mut reservation = pool.reserve(1)?;
            let page = reservation.create();
            Btree::format_root(page.page(), page.page_id(), core.id);
            let moved = page.page_id();
            drop(page);
            drop(reservation);
            if moved == core.root {
                // A damaged record named the root as its large value, and both were freed.
                return Err(Btree::new(pool, core).damage(moved, "root of a tree is in no tree"));
            }
            let key = records::dropping_key(moved);
            let put = self.within_gate(pool).put(
                &key,
                &core.id.0.to_le_bytes(),
                &mut Unversioned::unlogged(),
            );
            if let Err(error) = put {
                pool.free_unloaded(moved);
                return Err(error);
            }
            moved
        };
        let cleared = {
            // Nobody is inside: no insert straddles the move, and the length is exact.
            let _closed = pool.gate().close();
            let mut place = None;
            let cleared = Btree::within_gate(pool, core).move_root_to(moved, instead, || {
                let reserved = log.reserve(definition)?;
                Ok(place.insert(reserved).lsn())
            });
            if let (Ok(()), Some(place)) = (&cleared, place) {
                place.done();
            }
            cleared
        };
        drop(definitions);
        let finished = self.finish_drop(pool, core.id, moved);
        cleared.and(finished)
    }

    /// Takes apart what a 'd' record names.
    fn finish_drop(&self, pool: &Pool, tree: TreeId, root: PageId) -> Result<()> {
        // Whoever was inside when the tree was detached has left after this.
        drop(pool.gate().close());
        let detached = TreeCore::new(tree, root, 0);
        let left = pool.store().knows(root);
        if left {
            Btree::new(pool, &detached).destroy()?;
        }
        // In one passage, so that no record names a page id that is free to mean something else.
        let _inside = pool.gate().enter();
        self.within_gate(pool)
            .delete(&records::dropping_key(root), &mut Unversioned::unlogged())?;
        if left {
            pool.free_unloaded(root);
        }
        Ok(())
    }

    /// Goes on with one of the drops that were interrupted before the database was opened. False: none is
    /// left. One that fails is left for the next opening.
    pub(crate) fn finish_interrupted_drop(&self, pool: &Pool) -> Result<bool> {
        let Some((tree, root)) = self.interrupted().pop() else { return Ok(false) };
        let definitions = self.define();
        let mut named = false;
        records::each_name(self.tree(pool), |_, record| named |= record.root == root)?;
        if named {
            // The drop failed before the name was gone: the tree lives.
            self.tree(pool).delete(&records::dropping_key(root), &mut Unversioned::unlogged())?;
        } else {
            drop(definitions);
            self.finish_drop(pool, tree, root)?;
        }
        Ok(true)
    }

    /// The trees that are being taken apart.
    pub(crate) fn dropping(&self, pool: &Pool) -> Result<Vec<(TreeId, PageId)>> {
        let mut dropping = Vec::new();
        if self.present {
            records::each_dropping(self.tree(pool), |tree, root| dropping.push((tree, root)))?;
        }
        Ok(dropping)
    }

    /// The lengths of all trees and the next tree id, exact if the caller keeps the gate closed.
    pub(crate) fn lengths_for_checkpoint(&self) -> (Vec<(TreeId, u64)>, TreeId) {
        let mut lengths = self.lengths().clone();
        lengths.insert(TreeId::CATALOG, self.core.lengths.sum());
        self.registry.each(|core| {
            lengths.insert(core.id, core.lengths.sum());
        });
        // Relaxed: the gate is closed.
        let next = TreeId(self.next_tree.load(Ordering::Relaxed));
        (lengths.into_iter().collect(), next)
    }
}
