//! Trees by their names: found, created, dropped, renamed.
//!
//! The catalog decides; here a name is checked, the system's trees are kept from plain handles, and a definition is
//! acknowledged as durable as the database says.

use super::db::Db;
use super::tree::Tree;
use crate::btree::TreeCore;
use crate::error::{Denied, Result};
use crate::name::{AsName, NameRef};
use std::sync::Arc;

impl Db {
    /// The handle of a tree, by the name under which it was found.
    pub(super) fn handle_of(&self, core: Arc<TreeCore>, name: NameRef<'_>) -> Tree {
        Tree::new(Arc::clone(&self.handle), core, name)
    }

    /// Looks for tombstones in all trees that can be reached, later.
    pub(super) fn purge_all(&self) {
        let Some(ledger) = &self.shared().ledger else { return };
        // What a damaged catalog hides keeps its tombstones, which do no harm.
        let names = self.shared().catalog.names(&self.shared().pool);
        for name in names.unwrap_or_default() {
            let name = NameRef::stored(&name);
            if let Ok(Some(tree)) = name.and_then(|name| self.open_named(name)) {
                ledger.purge_all_of(tree.target().clone());
            }
        }
    }

    /// The tree of that name, created if there is none. The name is a [`Name`](crate::Name) or a string.
    ///
    /// # Errors
    /// [`Usage::BadName`](crate::error::Usage::BadName); [`Denied::SystemTree`] for a name of the system;
    /// [`Denied::ReadOnly`] if it would have to be created and cannot be; [`Error::Corrupt`](crate::Error::Corrupt),
    /// [`Error::Io`](crate::Error::Io), and [`Error::Full`](crate::Error::Full) or
    /// [`Error::Poisoned`](crate::Error::Poisoned) when creating it.
    pub fn tree(&self, name: impl AsName) -> Result<Tree> {
        self.tree_named(name.as_name()?.ordinary()?)
    }

    /// [`tree`](Self::tree), of the system or not.
    fn tree_named(&self, name: NameRef<'_>) -> Result<Tree> {
        let shared = self.shared();
        shared.check_open()?;
        let Some(ledger) = &shared.ledger else {
            let core = shared.catalog.get(&shared.pool, name)?;
            let core = core.ok_or(Denied::ReadOnly { op: "create a tree" })?;
            return Ok(self.handle_of(core, name));
        };
        let log = ledger.defining();
        let core = match shared.catalog.get(&shared.pool, name)? {
            Some(core) => core,
            None => shared.catalog.get_or_create(&shared.pool, name.for_new_tree()?, &log)?,
        };
        ledger.log.acknowledge(log.end(), shared.durability)?;
        Ok(self.handle_of(core, name))
    }

    /// The tree of a name that another database gave to one, made, to be written to.
    pub(super) fn stored_tree(&self, name: NameRef<'_>) -> Result<Tree> {
        let shared = self.shared();
        let ledger = shared.ledger("create a tree")?;
        let core = shared.catalog.get_or_create(&shared.pool, name, &ledger.defining())?;
        Ok(self.handle_of(core, name).unfixed())
    }

    /// The tree of the system of that name, created if there is none, to be written to.
    pub(crate) fn system_tree(&self, name: &str) -> Result<Tree> {
        Ok(self.tree_named(name.as_name()?)?.unfixed())
    }

    /// The tree of that name, if there is one. A tree of the system can be read, but not changed.
    ///
    /// # Errors
    /// [`Usage::BadName`](crate::error::Usage::BadName), [`Error::Corrupt`](crate::Error::Corrupt),
    /// [`Error::Io`](crate::Error::Io).
    pub fn open_tree(&self, name: impl AsName) -> Result<Option<Tree>> {
        self.open_named(name.as_name()?)
    }

    fn open_named(&self, name: NameRef<'_>) -> Result<Option<Tree>> {
        let shared = self.shared();
        shared.check_open()?;
        let core = shared.catalog.get(&shared.pool, name)?;
        Ok(core.map(|core| self.handle_of(core, name)))
    }

    /// The names of all trees but those of the system, ascending by their bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::Io`](crate::Error::Io).
    pub fn trees(&self) -> Result<Vec<String>> {
        self.names_that(|is_system| !is_system)
    }

    /// The names of the system's trees, which hold accounts and namespaces if there are any.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), [`Error::Io`](crate::Error::Io).
    pub fn system_trees(&self) -> Result<Vec<String>> {
        self.names_that(|is_system| is_system)
    }

    /// The names of all trees, those of the system included.
    pub(super) fn all_names(&self) -> Result<Vec<String>> {
        self.shared().check_open()?;
        self.shared().catalog.names(&self.shared().pool)
    }

    fn names_that(&self, wanted: impl Fn(bool) -> bool) -> Result<Vec<String>> {
        let mut names = self.all_names()?;
        names.retain(|name| wanted(NameRef::stored(name).is_ok_and(NameRef::is_system)));
        Ok(names)
    }

    /// Drops a tree and gives its pages back. False: there is none of that name. Handles of it fail with
    /// [`Usage::TreeDropped`](crate::error::Usage::TreeDropped) from then on.
    ///
    /// # Errors
    /// [`Usage::BadName`](crate::error::Usage::BadName), [`Denied::SystemTree`], [`Denied::ReadOnly`],
    /// [`Error::Full`](crate::Error::Full), [`Error::Io`](crate::Error::Io),
    /// [`Error::Poisoned`](crate::Error::Poisoned). If the tree is gone but freeing its pages failed, opening the
    /// database goes on with that.
    pub fn drop_tree(&self, name: impl AsName) -> Result<bool> {
        let name = name.as_name()?.ordinary()?;
        let shared = self.shared();
        shared.check_writable("drop a tree")?;
        let ledger = shared.ledger("drop a tree")?;
        let log = ledger.defining();
        let dropped = shared.catalog.drop_tree(&shared.pool, name, &log)?;
        ledger.log.acknowledge(log.end(), shared.durability)?;
        Ok(dropped)
    }

    /// Gives a tree another name. Handles of it stay good, but for those of sessions, whose rights go by names.
    ///
    /// # Errors
    /// [`Usage::NoSuchTree`](crate::error::Usage::NoSuchTree), [`Usage::TreeExists`](crate::error::Usage::TreeExists),
    /// [`Usage::BadName`](crate::error::Usage::BadName), [`Denied::SystemTree`], [`Denied::ReadOnly`],
    /// [`Error::Full`](crate::Error::Full), [`Error::Io`](crate::Error::Io),
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn rename_tree(&self, from: impl AsName, to: impl AsName) -> Result<()> {
        let from = from.as_name()?.ordinary()?;
        let to = to.as_name()?.for_new_tree()?.ordinary()?;
        let shared = self.shared();
        shared.check_writable("rename a tree")?;
        let ledger = shared.ledger("rename a tree")?;
        let log = ledger.defining();
        shared.catalog.rename(&shared.pool, from, to, &log)?;
        shared.attached.tree_renamed();
        ledger.log.acknowledge(log.end(), shared.durability)
    }
}
