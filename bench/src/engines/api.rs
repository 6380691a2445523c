//! The plain API and the session API of latchkv under one trait, so that one workload runs on both.
//!
//! What it is for: workloads with transactions over several trees. What it is not: a trait over engines; the others
//! have no sessions, and [`store::Store`](super::store::Store) is that one.
//!
//! ```text
//! Store --run--> Connection of this thread --transact--> Txn, as often as it conflicts
//!                                          --begin-----> Txn, once: whoever calls counts the conflicts
//!   plain:       Tree handles                             Transaction
//!   session:     a Session and its SessionTrees           SessionTransaction
//! ```
//!
//! Everything is resolved when it is compiled: no call through the traits costs anything. A [`Store`] of the session
//! API keeps as many sessions as threads were announced; who runs a [`Job`] takes one and gives it back.
//!
//! Tested through the workloads, each on both.

use crate::Fail;
use latchkv::{
    Db, Entry, Options, PasswordCost, Policy, Result, Session, SessionOptions, SessionRange,
    SessionTransaction, SessionTree, Transaction, TransactionRange, Tree,
};
use std::path::Path;
use std::sync::Mutex;

/// Which API a workload goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Api {
    /// Open trees, no accounts
    Plain,
    /// Sessions of an account that has rights on the namespace alone
    Session,
}

/// A transaction on trees of handle `T`. Dropping it takes everything back.
pub(crate) trait Txn<T> {
    /// Records of a range, ascending.
    type Range<'t>: Iterator<Item = Result<Entry>>
    where
        Self: 't,
        T: 't;

    /// Hands the value of `key` to `f`.
    fn get_with<R>(&self, tree: &T, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>>;

    /// Puts a value in place of what was there.
    fn put(&mut self, tree: &T, key: &[u8], value: &[u8]) -> Result<()>;

    /// Puts a value if there is none.
    fn insert(&mut self, tree: &T, key: &[u8], value: &[u8]) -> Result<bool>;

    /// Removes a key. False: there is none.
    fn delete(&mut self, tree: &T, key: &[u8]) -> Result<bool>;

    /// The records from `from` on and below `to`.
    fn range<'t>(&'t self, tree: &'t T, from: &[u8], to: &[u8]) -> Result<Self::Range<'t>>;

    /// Makes all writes at once, or none.
    fn commit(self) -> Result<()>;
}

/// A thread's way to a store.
pub(crate) trait Connection {
    /// A handle of a tree.
    type Tree: Clone;
    /// A transaction.
    type Txn<'c>: Txn<Self::Tree>
    where
        Self: 'c;

    /// The trees of the store, in the order in which it was told them.
    fn trees(&self) -> &[Self::Tree];

    /// Hands the value of `key` to `f`, outside of any transaction.
    fn get_with<R>(
        &self,
        tree: &Self::Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>>;

    /// Puts a value if there is none, in a commit of its own.
    fn insert(&self, tree: &Self::Tree, key: &[u8], value: &[u8]) -> Result<bool>;

    /// Hands up to `take` records from `first` on to `f`, outside of any transaction.
    fn scan(
        &self,
        tree: &Self::Tree,
        first: &[u8],
        take: usize,
        f: impl FnMut(&[u8], &[u8]),
    ) -> Result<()>;

    /// Begins a transaction under snapshot isolation, with the durability of the database.
    fn begin(&self) -> Result<Self::Txn<'_>>;

    /// Calls `f` in a transaction and commits it; again, as long as that is a conflict.
    fn transact<R>(&self, f: impl FnMut(&mut Self::Txn<'_>) -> Result<R>) -> Result<R>;
}

/// Hands records to `f`.
fn hand_out(
    range: impl Iterator<Item = Result<Entry>>,
    mut f: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    for entry in range {
        let entry = entry?;
        f(entry.key(), entry.value());
    }
    Ok(())
}

impl Txn<Tree> for Transaction<'_> {
    type Range<'t>
        = TransactionRange<'t>
    where
        Self: 't,
        Tree: 't;

    fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        Transaction::get_with(self, tree, key, f)
    }

    fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        Transaction::put(self, tree, key, value)
    }

    fn insert(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        Transaction::insert(self, tree, key, value)
    }

    fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<bool> {
        Transaction::delete(self, tree, key)
    }

    fn range<'t>(&'t self, tree: &'t Tree, from: &[u8], to: &[u8]) -> Result<TransactionRange<'t>> {
        Ok(Transaction::range::<&[u8]>(self, tree, from..to))
    }

    fn commit(self) -> Result<()> {
        Transaction::commit(self).map(drop)
    }
}

impl<'s> Txn<SessionTree<'s>> for SessionTransaction<'_> {
    type Range<'t>
        = SessionRange<'t>
    where
        Self: 't,
        SessionTree<'s>: 't;

    fn get_with<R>(
        &self,
        tree: &SessionTree<'s>,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        SessionTransaction::get_with(self, tree, key, f)
    }

    fn put(&mut self, tree: &SessionTree<'s>, key: &[u8], value: &[u8]) -> Result<()> {
        SessionTransaction::put(self, tree, key, value)
    }

    fn insert(&mut self, tree: &SessionTree<'s>, key: &[u8], value: &[u8]) -> Result<bool> {
        SessionTransaction::insert(self, tree, key, value)
    }

    fn delete(&mut self, tree: &SessionTree<'s>, key: &[u8]) -> Result<bool> {
        SessionTransaction::delete(self, tree, key)
    }

    fn range<'t>(
        &'t self,
        tree: &'t SessionTree<'s>,
        from: &[u8],
        to: &[u8],
    ) -> Result<SessionRange<'t>> {
        SessionTransaction::range::<&[u8]>(self, tree, from..to)
    }

    fn commit(self) -> Result<()> {
        SessionTransaction::commit(self).map(drop)
    }
}

/// The connection of the plain API.
pub(crate) struct Plain<'d> {
    db: &'d Db,
    trees: &'d [Tree],
}

impl Connection for Plain<'_> {
    type Tree = Tree;
    type Txn<'c>
        = Transaction<'c>
    where
        Self: 'c;

    fn trees(&self) -> &[Tree] {
        self.trees
    }

    fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        tree.get_with(key, f)
    }

    fn insert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        tree.insert(key, value)
    }

    fn scan(
        &self,
        tree: &Tree,
        first: &[u8],
        take: usize,
        f: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        hand_out(tree.range::<&[u8]>(first..).take(take), f)
    }

    fn begin(&self) -> Result<Transaction<'_>> {
        self.db.begin()
    }

    fn transact<R>(&self, f: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        self.db.transact(f)
    }
}

/// The connection of the session API.
pub(crate) struct OfSession<'s> {
    session: &'s Session,
    trees: Vec<SessionTree<'s>>,
}

impl<'s> Connection for OfSession<'s> {
    type Tree = SessionTree<'s>;
    type Txn<'c>
        = SessionTransaction<'c>
    where
        Self: 'c;

    fn trees(&self) -> &[SessionTree<'s>] {
        &self.trees
    }

    fn get_with<R>(
        &self,
        tree: &SessionTree<'s>,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        tree.get_with(key, f)
    }

    fn insert(&self, tree: &SessionTree<'s>, key: &[u8], value: &[u8]) -> Result<bool> {
        tree.insert(key, value)
    }

    fn scan(
        &self,
        tree: &SessionTree<'s>,
        first: &[u8],
        take: usize,
        f: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        hand_out(tree.range::<&[u8]>(first..).take(take), f)
    }

    fn begin(&self) -> Result<SessionTransaction<'_>> {
        self.session.begin()
    }

    fn transact<R>(&self, f: impl FnMut(&mut SessionTransaction<'_>) -> Result<R>) -> Result<R> {
        self.session.transact(f)
    }
}

/// What a thread does with its connection.
pub(crate) trait Job {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run<C: Connection>(self, connection: &C) -> Result<Self::Output, Fail>;
}

/// How a store is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) api: Api,
    /// How sessions look rights up.
    pub(crate) policy: Policy,
    /// Threads that will run jobs at once.
    pub(crate) threads: usize,
    /// Roles with rights of their own that the tables of rights hold beside those of the account at work.
    pub(crate) roles: usize,
}

impl Access {
    /// Lazy sessions, beside a hundred roles.
    pub(crate) fn new(api: Api, threads: usize) -> Access {
        Access { api, policy: Policy::Lazy, threads, roles: 100 }
    }
}

/// A database with the trees of a workload.
pub(crate) struct Store {
    /// Those not at work; `None` with the plain API.
    sessions: Option<Mutex<Vec<Session>>>,
    names: Vec<String>,
    trees: Vec<Tree>,
    db: Db,
}

const PASSWORD: &[u8] = b"for a benchmark";

impl Store {
    /// A new database with empty trees of these names, in one namespace.
    pub(crate) fn create(
        path: &Path,
        options: &Options,
        access: Access,
        namespace: &str,
        trees: &[&str],
    ) -> Result<Store, Fail> {
        let db = options.create(path)?;
        let names: Vec<String> = trees.iter().map(|tree| format!("{namespace}/{tree}")).collect();
        let sessions = match access.api {
            Api::Plain => None,
            Api::Session => Some(Mutex::new(log_in(&db, access, namespace, &names)?)),
        };
        let trees = names.iter().map(|name| db.tree(name.as_str())).collect::<Result<_, _>>()?;
        Ok(Store { sessions, names, trees, db })
    }

    /// A database that [`create`](Self::create) has made, by the plain API.
    pub(crate) fn open(
        path: &Path,
        options: &Options,
        namespace: &str,
        trees: &[&str],
    ) -> Result<Store, Fail> {
        let db = options.open_existing(path)?;
        let names: Vec<String> = trees.iter().map(|tree| format!("{namespace}/{tree}")).collect();
        let open = |name: &String| {
            let tree = db.open_tree(name.as_str())?;
            tree.ok_or_else(|| Fail::from(format!("there is no tree {name}: load the database")))
        };
        let trees = names.iter().map(open).collect::<Result<_, Fail>>()?;
        Ok(Store { sessions: None, names, trees, db })
    }

    /// Its database, for what concerns all of it.
    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Its trees, for loading and checking.
    pub(crate) fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// A connection of the plain API, whatever API the store is reached by.
    pub(crate) fn plain(&self) -> Plain<'_> {
        Plain { db: &self.db, trees: &self.trees }
    }

    /// Runs a job on a connection of the calling thread.
    ///
    /// # Errors
    /// Those of the job. More threads than were announced find no session.
    pub(crate) fn run<J: Job>(&self, job: J) -> Result<J::Output, Fail> {
        if self.sessions.is_none() {
            return job.run(&self.plain());
        }
        self.on_session(|session| {
            let trees = self.names.iter().map(|name| session.tree(name.as_str()));
            let trees = trees.collect::<Result<_>>()?;
            job.run(&OfSession { session, trees })
        })
    }

    /// Calls `f` with a session that nobody else uses meanwhile.
    ///
    /// # Errors
    /// Those of `f`. A store of the plain API has no sessions, and one of the other as many as threads were announced.
    pub(crate) fn on_session<R>(
        &self,
        f: impl FnOnce(&Session) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let sessions = self.sessions.as_ref().ok_or("the plain API has no sessions")?;
        let lock = || sessions.lock().map_err(|_| "a thread of the benchmark panicked");
        let session = lock()?.pop().ok_or("more threads than sessions")?;
        let result = f(&session);
        lock()?.push(session);
        result
    }

    /// Closes the database.
    pub(crate) fn close(self) -> Result<(), Fail> {
        let Store { sessions, trees, db, .. } = self;
        drop((sessions, trees));
        Ok(db.close()?)
    }
}

/// Makes the accounts and the trees, and logs one account in for each thread.
fn log_in(
    db: &Db,
    access: Access,
    namespace: &str,
    names: &[String],
) -> Result<Vec<Session>, Fail> {
    let cost = PasswordCost::least();
    let options = SessionOptions::new().policy(access.policy).password_cost(cost);
    let sessions = db.sessions_with(options)?;
    sessions.create_administrator("root", PASSWORD)?;
    let root = sessions.login("root", PASSWORD)?;
    root.create_namespace(namespace)?;
    for name in names {
        root.create_tree(name.as_str())?;
    }
    for number in 0..access.roles {
        let role = format!("role{number}");
        root.create_role(&role)?;
        root.grant(&role, &format!("{namespace}/other{number}").parse()?, "READ,WRITE".parse()?)?;
    }
    root.create_user("clerk", PASSWORD)?;
    root.grant("clerk", &format!("{namespace}/*").parse()?, "READ,WRITE".parse()?)?;
    Ok((0..access.threads.max(1))
        .map(|_| sessions.login("clerk", PASSWORD))
        .collect::<Result<_, _>>()?)
}
