//! Sessions: who may do what, when that changes, and what happens to what is open then.
//!
//! - `rights`: every call with every set of rights, under both policies.
//! - `revoking`: rights that go, and accounts that are dropped, while trees, iterators, watches and transactions are
//!   open.
//! - `read_only`: states of namespaces, among writers.
//! - `definitions`: trees made, renamed, cleared, dropped and rebuilt among readers and writers.
//! - `accounts`: changes of accounts, and what is kept of them: reopening, damage, audit.

#[path = "../common/mod.rs"]
mod common;

mod accounts;
mod definitions;
mod read_only;
mod revoking;
mod rights;

use latchkv::{Db, Durability, Object, Options, PasswordCost, Policy, Rights, Session};
use latchkv::{SessionOptions, Sessions};
use std::time::Duration;

pub(crate) const PASSWORD: &[u8] = b"correct horse";

pub(crate) fn options() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(2 << 20)
        .durability(Durability::None)
}

pub(crate) fn session_options(policy: Policy) -> SessionOptions {
    SessionOptions::new()
        .password_cost(PasswordCost::least())
        .lock_timeout(Duration::from_secs(60))
        .policy(policy)
}

/// A database with an administrator, its sessions, and the administrator's.
pub(crate) fn begun(policy: Policy) -> (Db, Sessions, Session) {
    let db = common::simulated(&options());
    let sessions = db.sessions_with(session_options(policy)).expect("the first to ask");
    sessions.create_administrator("root", PASSWORD).expect("no accounts yet");
    let root = sessions.login("root", PASSWORD).expect("right");
    (db, sessions, root)
}

/// Runs a test under each policy: the answers are the same.
pub(crate) fn under_both(test: impl Fn(Policy)) {
    test(Policy::Lazy);
    test(Policy::Eager);
}

/// A new user, who has logged in.
pub(crate) fn user(sessions: &Sessions, root: &Session, name: &str) -> Session {
    root.create_user(name, PASSWORD).expect("a new name");
    sessions.login(name, PASSWORD).expect("right")
}

pub(crate) fn grant(root: &Session, to: &str, object: &str, rights: Rights) {
    root.grant(to, &on(object), rights).expect("root has all rights");
}

pub(crate) fn revoke(root: &Session, from: &str, object: &str, rights: Rights) {
    root.revoke(from, &on(object), rights).expect("root has all rights");
}

pub(crate) fn on(object: &str) -> Object {
    object.parse().expect("an object")
}
