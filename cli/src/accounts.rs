//! `latchkv user`, `role`, `grant` and `revoke`: who may log in, and who may do what.
//!
//! All of it is done by an account that has logged in, but for the first account: whoever may open a database without
//! accounts makes the administrator. What `user list` prints:
//!
//! ```text
//! user  <TAB> ada
//!       <TAB> role   <TAB> clerks
//!       <TAB> grant  <TAB> shop/*  <TAB> READ,WRITE
//! role  <TAB> clerks
//! ```
//!
//! A line that begins with a word is an account; what was granted to it, and not by its roles, stands below. Names are
//! written as keys are.

use crate::access::{Access, changing_as_account, only_one_standard_input, reading_as_account};
use crate::args::{Global, Grant, NewPassword, OnAccount, Revoke, RoleCommand, UserCommand};
use crate::exit::{Failure, Outcome};
use crate::read::print;
use crate::{keys, password};
use latchkv::{AccountInfo, AccountName, Durability, Error, Object, Session, Usage};
use serde_json::{Value, json};

/// Runs `latchkv user`.
pub(crate) fn user(global: &Global, command: &UserCommand) -> Outcome {
    match command {
        UserCommand::Add(args) if args.on.who.user.is_none() => add_first(global, args),
        UserCommand::Add(args) => {
            set_password(global, "user add", args, |session, name, password| {
                session.create_user(name, password)
            })
        }
        UserCommand::Passwd(args) => {
            set_password(global, "user passwd", args, |session, name, password| {
                session.set_password(name, password)
            })
        }
        UserCommand::Drop(on) => drop_account(global, "user drop", on, false),
        UserCommand::List(args) => {
            reading_as_account(global, "user list", &args.db, &args.who, |session| {
                list(&session.accounts()?, args.json)
            })
        }
    }
}

/// Makes the administrator.
fn add_first(global: &Global, args: &NewPassword) -> Outcome {
    let (db, name) = (&args.on.db, args.on.name.as_str());
    let access = Access::existing(global, db, &args.on.who, Durability::Sync)?;
    let sessions = access.db().sessions();
    // Before anybody types.
    if sessions.has_accounts()? {
        return Err(Error::from(Usage::AccountsExist).into());
    }
    let password = password::new(global.quiet, name, args.new_password_file.as_deref())?;
    sessions.create_administrator(name, &password)?;
    access.close()?;
    if !global.quiet {
        eprintln!("{name:?} is the administrator of {} and has every right", db.display());
    }
    Ok(())
}

/// What is done with a new password needs both passwords first.
fn set_password(
    global: &Global,
    command: &str,
    args: &NewPassword,
    set: impl FnOnce(&Session, &str, &[u8]) -> latchkv::Result<()>,
) -> Outcome {
    let NewPassword { on: OnAccount { db, name, who }, new_password_file: file } = args;
    let takes_stdin = file.as_deref().is_some_and(password::is_standard_input);
    only_one_standard_input(who, takes_stdin.then_some("the new password"))?;
    changing_as_account(global, command, db, who, |session| {
        let password = password::new(global.quiet, name.as_str(), file.as_deref())?;
        Ok(set(session, name.as_str(), &password)?)
    })
}

/// Drops a user or a role, whichever is meant.
fn drop_account(global: &Global, command: &str, on: &OnAccount, role: bool) -> Outcome {
    changing_as_account(global, command, &on.db, &on.who, |session| {
        let accounts = session.accounts()?;
        if accounts.iter().any(|account| account.name == on.name && account.is_role != role) {
            let (is, other) = if role { ("a user", "user") } else { ("a role", "role") };
            return Err(Failure::Usage(format!(
                "{:?} is {is}: `latchkv {other} drop` drops it",
                on.name
            )));
        }
        Ok(session.drop_account(on.name.as_str())?)
    })
}

/// Runs `latchkv role`.
pub(crate) fn role(global: &Global, command: &RoleCommand) -> Outcome {
    match command {
        RoleCommand::Add(on) => {
            changing_as_account(global, "role add", &on.db, &on.who, |session| {
                Ok(session.create_role(on.name.as_str())?)
            })
        }
        RoleCommand::Drop(on) => drop_account(global, "role drop", on, true),
        RoleCommand::Grant(args) => {
            changing_as_account(global, "role grant", &args.db, &args.who, |session| {
                Ok(session.grant_role(args.to.as_str(), args.role.as_str())?)
            })
        }
        RoleCommand::Revoke(args) => {
            changing_as_account(global, "role revoke", &args.db, &args.who, |session| {
                Ok(session.revoke_role(args.from.as_str(), args.role.as_str())?)
            })
        }
    }
}

/// Runs `latchkv grant`.
pub(crate) fn grant(global: &Global, args: &Grant) -> Outcome {
    let mut remark = None;
    changing_as_account(global, "grant", &args.db, &args.who, |session| {
        session.grant(args.to.as_str(), &args.on, args.rights)?;
        remark = meant_namespace(session, &args.on)?;
        Ok(())
    })?;
    if let Some(remark) = remark.filter(|_| !global.quiet) {
        eprintln!("{remark}");
    }
    Ok(())
}

/// What to say if the object is a tree that is not there, and a namespace has its name. Only who has rights on the tree
/// is told that it is not there.
fn meant_namespace(session: &Session, object: &Object) -> Outcome<Option<String>> {
    let Object::Tree { namespace, tree } = object else { return Ok(None) };
    if !namespace.is_empty() || !session.namespaces()?.iter().any(|(name, _)| name == tree) {
        return Ok(None);
    }
    Ok(match session.tree(tree.as_str()) {
        Err(Error::Usage(Usage::NoSuchTree(_))) => {
            Some(format!("no tree is named {tree:?} so far: for the namespace write '{tree}/*'"))
        }
        _ => None,
    })
}

/// Runs `latchkv revoke`.
pub(crate) fn revoke(global: &Global, args: &Revoke) -> Outcome {
    changing_as_account(global, "revoke", &args.db, &args.who, |session| {
        Ok(session.revoke(args.from.as_str(), &args.on, args.rights)?)
    })
}

fn list(accounts: &[AccountInfo], as_json: bool) -> Outcome {
    if as_json {
        return print(format!("{}\n", object(accounts)).as_bytes());
    }
    let mut out = Vec::new();
    for account in accounts {
        let kind = if account.is_role { "role" } else { "user" };
        line(&mut out, &[kind, account.name.as_str()]);
        for role in &account.roles {
            line(&mut out, &["", "role", role.as_str()]);
        }
        for (object, rights) in &account.grants {
            line(&mut out, &["", "grant", &object.to_string(), &rights.to_string()]);
        }
    }
    print(&out)
}

/// Appends a line of columns.
fn line(out: &mut Vec<u8>, columns: &[&str]) {
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            out.push(b'\t');
        }
        keys::escape_into(out, column.as_bytes());
    }
    out.push(b'\n');
}

/// The list as an object: names, and for each what it is, its roles, and its grants by object.
fn object(accounts: &[AccountInfo]) -> Value {
    let account = |account: &AccountInfo| {
        let roles: Vec<&str> = account.roles.iter().map(AccountName::as_str).collect();
        let grant = |(object, rights): &(latchkv::Object, latchkv::Rights)| {
            let rights = rights.to_string();
            (object.to_string(), json!(rights.split(',').collect::<Vec<_>>()))
        };
        let grants: serde_json::Map<String, Value> = account.grants.iter().map(grant).collect();
        let described = json!({ "role": account.is_role, "roles": roles, "grants": grants });
        (account.name.to_string(), described)
    };
    Value::Object(accounts.iter().map(account).collect())
}
