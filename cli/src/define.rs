//! `latchkv tree` and `latchkv namespace`: trees as a whole, and what holds them.
//!
//! Trees are defined by the owner of the files or by an account with the right to; namespaces by accounts only, since
//! what they are is kept with the accounts. The unnamed namespace is written `/` here, which no name can hold.

use crate::access::{Access, changing, changing_as_account, reading_as_account};
use crate::args::{Global, NamespaceCommand, TreeCommand, UNNAMED};
use crate::exit::Outcome;
use crate::keys;
use crate::load::not_a_reserved_name;
use crate::open;
use crate::read::print;
use latchkv::{Error, ReadOnly, Session, Usage};
use serde_json::{Map, Value, json};

/// Runs `latchkv tree`.
pub(crate) fn tree(global: &Global, command: &TreeCommand) -> Outcome {
    match command {
        TreeCommand::Create(on) => {
            not_a_reserved_name(&on.tree)?;
            changing(global, &on.db, &on.who, |access| create(access, &on.tree))
        }
        TreeCommand::Drop(on) => {
            changing(global, &on.db, &on.who, |access| match access.session() {
                Some(session) => Ok(session.drop_tree(&*on.tree)?),
                None if access.db().drop_tree(&*on.tree)? => Ok(()),
                None => Err(open::no_such_tree(&on.tree, &access.trees()?)),
            })
        }
        TreeCommand::Rename(args) => {
            not_a_reserved_name(&args.to)?;
            let (from, to) = (&*args.from, &*args.to);
            changing(global, &args.db, &args.who, |access| match access.session() {
                Some(session) => Ok(session.rename_tree(from, to)?),
                None => Ok(access.db().rename_tree(from, to)?),
            })
        }
        TreeCommand::Clear(on) => {
            changing(global, &on.db, &on.who, |access| match access.session() {
                Some(session) => Ok(session.clear_tree(&*on.tree)?),
                None => Ok(open::tree(access.db(), &on.tree)?.clear()?),
            })
        }
    }
}

fn create(access: &Access, name: &str) -> Outcome {
    if let Some(session) = access.session() {
        return Ok(session.create_tree(name)?);
    }
    if access.db().open_tree(name)?.is_some() {
        return Err(Error::from(Usage::TreeExists(name.to_owned())).into());
    }
    access.db().tree(name)?;
    Ok(())
}

/// Runs `latchkv namespace`.
pub(crate) fn namespace(global: &Global, command: &NamespaceCommand) -> Outcome {
    match command {
        NamespaceCommand::Create(on) => {
            changing_as_account(global, "namespace create", &on.db, &on.who, |session| {
                Ok(session.create_namespace(&on.namespace)?)
            })
        }
        NamespaceCommand::Drop(on) => {
            changing_as_account(global, "namespace drop", &on.db, &on.who, |session| {
                Ok(session.drop_namespace(&on.namespace)?)
            })
        }
        NamespaceCommand::ReadOnly(args) => {
            let on = &args.on;
            changing_as_account(global, "namespace read-only", &on.db, &on.who, |session| {
                Ok(session.set_read_only(&on.namespace, args.state)?)
            })
        }
        NamespaceCommand::List(args) => {
            reading_as_account(global, "namespace list", &args.db, &args.who, |session| {
                list(session, args.json)
            })
        }
    }
}

fn list(session: &Session, as_json: bool) -> Outcome {
    let shown = |(name, state): (String, ReadOnly)| {
        (if name.is_empty() { UNNAMED.to_owned() } else { name }, state.to_string())
    };
    let namespaces = session.namespaces()?.into_iter().map(shown);
    if as_json {
        let states: Map<String, Value> =
            namespaces.map(|(name, state)| (name, json!(state))).collect();
        return print(format!("{}\n", Value::from(states)).as_bytes());
    }
    let mut out = Vec::new();
    for (name, state) in namespaces {
        keys::escape_into(&mut out, name.as_bytes());
        out.extend_from_slice(format!("\t{state}\n").as_bytes());
    }
    print(&out)
}
