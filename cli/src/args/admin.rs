//! The command line of accounts, namespaces, and trees as a whole.
//!
//! Names, rights and objects are read here as the library reads them, so that what cannot be is a wrong command line.

use super::Who;
use clap::{Args, Subcommand};
use latchkv::{AccountName, Object, ReadOnly, Rights};
use std::path::PathBuf;

/// How the namespace of the trees without one is written.
pub(crate) const UNNAMED: &str = "/";

const RIGHTS_HELP: &str = "Rights: READ, WRITE, CREATE, DROP, GRANT; on * also SUPER; on * and namespaces also \
                           MAINTENANCE; ALL stands for all that go with the object.";

/// `latchkv user`.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make an account that can log in; the first one, made without --user, is the administrator
    Add(NewPassword),
    /// Set the password of an account: one's own, or with SUPER anybody's
    Passwd(NewPassword),
    /// Drop an account
    Drop(OnAccount),
    /// Print all accounts with their roles and grants; without SUPER only one's own
    List(List),
}

/// `latchkv role`.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// Make a role
    Add(OnAccount),
    /// Drop a role; who has it loses its rights
    Drop(OnAccount),
    /// Give a role to a user or another role
    Grant(RoleTo),
    /// Take a role away
    Revoke(RoleFrom),
}

/// An account, or a role.
#[derive(Debug, Args)]
pub(crate) struct OnAccount {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Its name
    pub(crate) name: AccountName,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// An account that gets a password.
#[derive(Debug, Args)]
pub(crate) struct NewPassword {
    /// Which.
    #[command(flatten)]
    pub(crate) on: OnAccount,
    /// File with the password that NAME gets, or - for standard input; without it LATCHKV_NEW_PASSWORD, or it is asked
    /// for twice
    #[arg(long, value_name = "FILE")]
    pub(crate) new_password_file: Option<PathBuf>,
}

/// `latchkv user list`, `latchkv namespace list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// As one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv role grant`.
#[derive(Debug, Args)]
pub(crate) struct RoleTo {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// The role
    pub(crate) role: AccountName,
    /// Who gets it
    #[arg(long, value_name = "NAME")]
    pub(crate) to: AccountName,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv role revoke`.
#[derive(Debug, Args)]
pub(crate) struct RoleFrom {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// The role
    pub(crate) role: AccountName,
    /// Who loses it
    #[arg(long, value_name = "NAME")]
    pub(crate) from: AccountName,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv grant`.
#[derive(Debug, Args)]
#[command(after_help = RIGHTS_HELP)]
pub(crate) struct Grant {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Rights with commas between
    pub(crate) rights: Rights,
    /// On what: * is everything, shop/* a namespace, /* all trees without one, shop/orders a tree
    #[arg(long, value_name = "OBJECT")]
    pub(crate) on: Object,
    /// Who gets them, a user or a role
    #[arg(long, value_name = "NAME")]
    pub(crate) to: AccountName,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv revoke`.
#[derive(Debug, Args)]
#[command(after_help = RIGHTS_HELP)]
pub(crate) struct Revoke {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Rights with commas between
    pub(crate) rights: Rights,
    /// On what they were granted
    #[arg(long, value_name = "OBJECT")]
    pub(crate) on: Object,
    /// Who loses them, a user or a role
    #[arg(long, value_name = "NAME")]
    pub(crate) from: AccountName,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv namespace`.
#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Make a namespace
    Create(OnNamespace),
    /// Forget a namespace, which may have no trees
    Drop(OnNamespace),
    /// Print the namespaces, and for each whether it is read-only
    List(List),
    /// Let everybody write to the trees of a namespace (no), only SUPER and MAINTENANCE (yes), or nobody (super)
    ReadOnly(SetReadOnly),
}

/// A namespace.
#[derive(Debug, Args)]
pub(crate) struct OnNamespace {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Its name; / is that of the trees without a namespace
    #[arg(value_parser = parse_namespace)]
    pub(crate) namespace: String,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv namespace read-only`.
#[derive(Debug, Args)]
pub(crate) struct SetReadOnly {
    /// Which.
    #[command(flatten)]
    pub(crate) on: OnNamespace,
    /// no, yes or super
    pub(crate) state: ReadOnly,
}

/// `latchkv tree`.
#[derive(Debug, Subcommand)]
pub(crate) enum TreeCommand {
    /// Make a tree, with no records
    Create(OnWholeTree),
    /// Drop a tree with all of its records
    Drop(OnWholeTree),
    /// Give a tree another name
    Rename(Rename),
    /// Remove all records of a tree
    Clear(OnWholeTree),
}

/// A tree as a whole, which has no default.
#[derive(Debug, Args)]
pub(crate) struct OnWholeTree {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Tree
    pub(crate) tree: String,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv tree rename`.
#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Tree
    pub(crate) from: String,
    /// Its name from then on
    pub(crate) to: String,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// Reads the name of a namespace; `/` is the unnamed one, as in the object `/*`.
fn parse_namespace(text: &str) -> Result<String, String> {
    let object = match text {
        UNNAMED => "/*".to_owned(),
        "" => return Err("the namespace of the trees without one is written /".into()),
        name => format!("{name}/*"),
    };
    match object.parse() {
        Ok(Object::Namespace(name)) => Ok(name),
        Ok(_) => Err("a namespace ends at the first slash".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_read_and_what_is_none_is_refused() {
        assert_eq!(parse_namespace("shop"), Ok("shop".into()));
        assert_eq!(parse_namespace("*"), Ok("*".into()));
        assert_eq!(parse_namespace("/"), Ok(String::new()));
        for bad in ["", "a/b", "/a", "a\n", "latchkv", "a/"] {
            assert!(parse_namespace(bad).is_err(), "{bad:?}");
        }
    }
}
