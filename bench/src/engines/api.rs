//! The plain API and the session API of latchkv under one trait, so that one workload runs on both.
//!
//! What it is for: workloads with transactions over several trees. What it is not: a trait over engines; the others
//! have no sessions, and [`store::Store`](super::store::Store) is that one.
//!
//! ```text
//! Store --run--> Connection of this thread --transact--> Txn, as often as it conflicts
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
    Db, Options, PasswordCost, Policy, Session, SessionOptions, SessionTransaction, SessionTree,
    Transaction, Tree,
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

/// What a transaction does to trees of handle `T`.
pub(crate) trait Txn<T> {
    /// Hands the value of `key` to `f`.
    fn get_with<R>(
        &self,
        tree: &T,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> latchkv::Result<Option<R>>;

    /// Puts a value in place of what was there.
    fn put(&mut self, tree: &T, key: &[u8], value: &[u8]) -> latchkv::Result<()>;

    /// Puts a value if there is none.
    fn insert(&mut self, tree: &T, key: &[u8], value: &[u8]) -> latchkv::Result<bool>;

    /// Removes a key.
    fn delete(&mut self, tree: &T, key: &[u8]) -> latchkv::Result<bool>;

    /// Hands the records from `first` to `last`, both included, to `f`.
    fn scan(
        &self,
        tree: &T,
        first: &[u8],
        last: &[u8],
        f: impl FnMut(&[u8], &[u8]),
    ) -> latchkv::Result<()>;
}

/// A thread's way to a store.
pub(crate) trait Connection {
    /// A handle of a tree.
    type Tree;
    /// A transaction.
    type Txn<'c>: Txn<Self::Tree>;

    /// The trees of the store, in the order in which it was told them.
    fn trees(&self) -> &[Self::Tree];

    /// Hands the value of `key` to `f`, outside of any transaction.
    fn get_with<R>(
        &self,
        tree: &Self::Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> latchkv::Result<Option<R>>;

    /// Puts a value if there is none, in a commit of its own.
    fn insert(&self, tree: &Self::Tree, key: &[u8], value: &[u8]) -> latchkv::Result<bool>;

    /// Hands up to `take` records from `first` on to `f`, outside of any transaction.
    fn scan(
        &self,
        tree: &Self::Tree,
        first: &[u8],
        take: usize,
        f: impl FnMut(&[u8], &[u8]),
    ) -> latchkv::Result<()>;

    /// Calls `f` in a transaction and commits it; again, as long as that is a conflict.
    fn transact<R>(
        &self,
        f: impl FnMut(&mut Self::Txn<'_>) -> latchkv::Result<R>,
    ) -> latchkv::Result<R>;
}

/// Hands records to `f`.
fn hand_out(
    range: impl Iterator<Item = latchkv::Result<latchkv::Entry>>,
    mut f: impl FnMut(&[u8], &[u8]),
) -> latchkv::Result<()> {
    for entry in range {
        let entry = entry?;
        f(entry.key(), entry.value());
    }
    Ok(())
}

impl Txn<Tree> for Transaction<'_> {
    fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> latchkv::Result<Option<R>> {
        Transaction::get_with(self, tree, key, f)
    }

    fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> latchkv::Result<()> {
        Transaction::put(self, tree, key, value)
    }

    fn insert(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> latchkv::Result<bool> {
        Transaction::insert(self, tree, key, value)
    }

    fn delete(&mut self, tree: &Tree, key: &[u8]) -> latchkv::Result<bool> {
        Transaction::delete(self, tree, key)
    }

    fn scan(
        &self,
        tree: &Tree,
        first: &[u8],
        last: &[u8],
        f: impl FnMut(&[u8], &[u8]),
    ) -> latchkv::Result<()> {
        hand_out(self.range::<&[u8]>(tree, first..=last), f)
    }
}

impl<'s> Txn<SessionTree<'s>> for SessionTransaction<'_> {
    fn get_with<R>(
        &self,
        tree: &SessionTree<'s>,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> latchkv::Result<Option<R>> {
        SessionTransaction::get_with(self, tree, key, f)
    }

    fn put(&mut self, tree: &SessionTree<'s>, key: &[u8], value: &[u8]) -> latchkv::Result<()> {
        SessionTransaction::put(self, tree, key, value)
    }

    fn insert(
        &mut self,
        tree: &SessionTree<'s>,
        key: &[u8],
        value: &[u8],
    ) -> latchkv::Result<bool> {
        SessionTransaction::insert(self, tree, key, value)
    }

    fn delete(&mut self, tree: &SessionTree<'s>, key: &[u8]) -> latchkv::Result<bool> {
        SessionTransaction::delete(self, tree, key)
    }

    fn scan(
        &self,
        tree: &SessionTree<'s>,
        first: &[u8],
        last: &[u8],
        f: impl FnMut(&[u8], &[u8]),
    ) -> latchkv::Result<()> {
        hand_out(self.range::<&[u8]>(tree, first..=last)?, f)
    }
}

/// The connection of the plain API.
pub(crate) struct Plain<'d> {
    db: &'d Db,
    trees: &'d [Tree],
}

impl Connection for Plain<'_> {
    type Tree = Tree;
    type Txn<'c> = Transaction<'c>;

    fn trees(&self) -> &[Tree] {
        self.trees
    }

    fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> latchkv::Result<Option<R>> {
        tree.get_with(key, f)
    }

    fn insert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> latchkv::Result<bool> {
        tree.insert(key, value)
    }

    fn scan(
        &self,
        tree: &Tree,
        first: &[u8],
        take: usize,
        f: impl FnMut(&[u8], &[u8]),
    ) -> latchkv::Result<()> {
        hand_out(tree.range::<&[u8]>(first..).take(take), f)
    }

    fn transact<R>(
        &self,
        f: impl FnMut(&mut Transaction<'_>) -> latchkv::Result<R>,
    ) -> latchkv::Result<R> {
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
    type Txn<'c> = SessionTransaction<'c>;

    fn trees(&self) -> &[SessionTree<'s>] {
        &self.trees
    }

    fn get_with<R>(
        &self,
        tree: &SessionTree<'s>,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> latchkv::Result<Option<R>> {
        tree.get_with(key, f)
    }

    fn insert(&self, tree: &SessionTree<'s>, key: &[u8], value: &[u8]) -> latchkv::Result<bool> {
        tree.insert(key, value)
    }

    fn scan(
        &self,
        tree: &SessionTree<'s>,
        first: &[u8],
        take: usize,
        f: impl FnMut(&[u8], &[u8]),
    ) -> latchkv::Result<()> {
        hand_out(tree.range::<&[u8]>(first..).take(take), f)
    }

    fn transact<R>(
        &self,
        f: impl FnMut(&mut SessionTransaction<'_>) -> latchkv::Result<R>,
    ) -> latchkv::Result<R> {
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

    /// Its trees, for loading and checking.
    pub(crate) fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Runs a job on a connection of the calling thread.
    ///
    /// # Errors
    /// Those of the job. More threads than were announced find no session.
    pub(crate) fn run<J: Job>(&self, job: J) -> Result<J::Output, Fail> {
        if self.sessions.is_none() {
            return job.run(&Plain { db: &self.db, trees: &self.trees });
        }
        self.on_session(|session| {
            let trees = self.names.iter().map(|name| session.tree(name.as_str()));
            let trees = trees.collect::<latchkv::Result<_>>()?;
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
