//! Accounts on real databases, on simulated disks.

mod administrators;
mod changes;
mod durability;
mod logins;
mod oracle;

use super::content::Content;
use super::name::{AccountId, AccountName};
use super::object::Object;
use super::password::{PasswordCost, PasswordHash};
use super::record::Account;
use super::rights::Rights;
use super::{Accounts, AccountsOptions};
use crate::api::{Db, Options};
use crate::error::{Denied, Error, Result, Usage};
use crate::io::sim::SimMachine;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) fn name(text: &str) -> AccountName {
    AccountName::new(text).expect(text)
}

fn object(text: &str) -> Object {
    text.parse().expect(text)
}

fn rights(text: &str) -> Rights {
    text.parse().expect(text)
}

/// A content of these users, roles, (member, role) and (grantee, object, rights). Ids ascend in this order from 1.
pub(super) fn content_of(
    users: &[&str],
    roles: &[&str],
    members: &[(&str, &str)],
    grants: &[(&str, &str, &str)],
) -> Content {
    let mut content = Content::default();
    let hash = PasswordHash::new(b"secret", PasswordCost::least()).expect("memory");
    let users = users.iter().map(|user| (user, Some(hash.clone())));
    for (account, hash) in users.chain(roles.iter().map(|role| (role, None))) {
        let id = AccountId(content.accounts.len() as u64 + 1);
        content.accounts.insert(name(account), Account { id, hash });
    }
    for (member, role) in members {
        content.roles.entry(name(member)).or_default().insert(name(role));
    }
    for &(grantee, on, given) in grants {
        content.grants.entry(name(grantee)).or_default().insert(object(on), rights(given));
    }
    content
}

fn db_options() -> Options {
    Options::new()
        .page_bytes(4096)
        .cache_bytes(1 << 20)
        .huge_pages(false)
        .checkpoint_bytes(u64::MAX)
        .log_slot_bytes(64 << 10)
        .log_buffer_bytes(64 << 10)
}

fn open(machine: &SimMachine) -> Db {
    db_options().open_disks(machine.data(), machine.log()).expect("whole disks")
}

/// A database with an administrator `root`.
struct House {
    machine: SimMachine,
    db: Db,
    accounts: Accounts,
    now: Arc<Mutex<Instant>>,
    root: AccountId,
}

const PASSWORD: &[u8] = b"correct horse";

fn accounts(now: &Arc<Mutex<Instant>>) -> Accounts {
    let now = Arc::clone(now);
    Accounts::new(AccountsOptions {
        cost: PasswordCost::least(),
        clock: Arc::new(move || *now.lock().expect("no panic")),
    })
}

impl House {
    fn new() -> House {
        let machine = SimMachine::new(1);
        let db = open(&machine);
        let now = Arc::new(Mutex::new(Instant::now()));
        let accounts = accounts(&now);
        let root =
            accounts.create_first_administrator(&db, &name("root"), PASSWORD).expect("none yet");
        House { machine, db, accounts, now, root }
    }

    /// Accounts as another opening of the disks finds them, without closing.
    fn reopened(&self) -> House {
        let machine = self.machine.crash(7, crate::io::sim::CrashMode::LoseAll);
        let db = open(&machine);
        let accounts = accounts(&self.now);
        House { machine, db, accounts, now: Arc::clone(&self.now), root: self.root }
    }

    fn pass(&self, time: Duration) {
        *self.now.lock().expect("no panic") += time;
    }

    fn user(&self, text: &str) -> AccountId {
        let made = self.accounts.create_user(&self.db, self.root, &name(text), PASSWORD);
        made.expect("a new user")
    }

    fn role(&self, text: &str) -> AccountId {
        self.accounts.create_role(&self.db, self.root, &name(text)).expect("a new role")
    }

    fn namespace(&self, text: &str) {
        self.accounts.create_namespace(&self.db, self.root, text).expect("a new namespace");
    }

    fn grant(&self, acting: AccountId, grantee: &str, on: &str, given: &str) -> Result<()> {
        self.accounts.grant(&self.db, acting, &name(grantee), &object(on), rights(given))
    }

    fn revoke(&self, acting: AccountId, grantee: &str, on: &str, taken: &str) -> Result<()> {
        self.accounts.revoke(&self.db, acting, &name(grantee), &object(on), rights(taken))
    }

    fn grant_role(&self, role: &str, member: &str) -> Result<()> {
        self.accounts.grant_role(&self.db, self.root, &name(role), &name(member))
    }

    fn revoke_role(&self, acting: AccountId, role: &str, member: &str) -> Result<()> {
        self.accounts.revoke_role(&self.db, acting, &name(role), &name(member))
    }

    fn drop(&self, acting: AccountId, account: &str) -> Result<()> {
        self.accounts.drop_account(&self.db, acting, &name(account))
    }

    /// What the account may do on an object, as text.
    fn held(&self, account: AccountId, on: &str) -> String {
        let directory = self.accounts.directory(&self.db).expect("whole");
        directory.rights_on(account, &object(on)).to_string()
    }

    fn id(&self, account: &str) -> AccountId {
        let directory = self.accounts.directory(&self.db).expect("whole");
        directory.find(account).expect("an account").1.id
    }

    /// All that there is, as it is listed, with the states of namespaces.
    fn listed(&self) -> String {
        let directory = self.accounts.directory(&self.db).expect("whole");
        let states: Vec<_> = directory.namespaces().collect();
        format!("{:?} {states:?}", directory.list())
    }
}

#[track_caller]
fn denied<T: std::fmt::Debug>(result: Result<T>, expected: Denied) {
    match result {
        Err(Error::Denied(denied)) => assert_eq!(denied, expected),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn misused<T: std::fmt::Debug>(result: Result<T>, expected: Usage) {
    match result {
        Err(Error::Usage(usage)) => assert_eq!(usage, expected),
        other => panic!("{other:?}"),
    }
}

fn needs(account: &str, rights: &str, object: &str) -> Denied {
    let (account, rights, object) = (account.into(), rights.into(), object.into());
    Denied::NeedsRights { account, rights, object }
}
