//! What rights are granted on, and the states of a namespace.
//!
//! | object | text | holds |
//! |---|---|---|
//! | everything | `*` | all trees |
//! | a namespace | `shop/*` | the trees whose names begin with `shop/` |
//! | the unnamed namespace | `/*` | the trees without a namespace |
//! | a tree | `shop/orders`, `orders` | itself |
//!
//! An object needs not exist: rights may be granted before a tree is created, and they stay when it is dropped. A
//! tree whose name within its namespace is `*` cannot be an object of its own, since `shop/*` is the namespace.
//! The namespace of the system is no object, so that only `*` reaches its trees. This file alone turns text into
//! objects.

use super::rights::Rights;
use crate::error::{Denied, Error, Result, Usage};
use crate::name::{NAME_BYTES_MAX, NameRef, SYSTEM};
use std::fmt;
use std::str::FromStr;

/// What rights are granted on: everything (`*`), a namespace (`shop/*`, and `/*` for the unnamed one), or a tree
/// (`shop/orders`, and `orders` in the unnamed one). A wider object holds the narrower ones. An object is a name: rights on
/// it stay when a tree is dropped, hold for the next tree of that name, and do not follow a tree that is renamed.
///
/// ```
/// use latchkv::Object;
/// let object: Object = "shop/*".parse()?;
/// assert_eq!(object, Object::Namespace("shop".into()));
/// assert_eq!(object.to_string(), "shop/*");
/// # Ok::<(), latchkv::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// Every tree, also of namespaces to come.
    All,
    /// The trees of a namespace, also those to come. Empty: the unnamed one.
    Namespace(String),
    /// One tree, by its name.
    Tree {
        /// The namespace. Empty: the unnamed one.
        namespace: String,
        /// The name within it.
        tree: String,
    },
}

impl Object {
    /// The rights that can be granted on it.
    pub(super) fn grantable(&self) -> Rights {
        match self {
            Object::All => Rights::ALL,
            Object::Namespace(_) => Rights::ALL.difference(Rights::SUPER),
            Object::Tree { .. } => Rights::ALL.difference(Rights::SUPER | Rights::MAINTENANCE),
        }
    }

    /// Refuses what cannot be the text of an object, and the system's namespace.
    ///
    /// # Errors
    /// [`Usage::BadObject`], [`Denied::SystemTree`].
    pub(super) fn check(&self) -> Result<()> {
        let (namespace, why) = match self {
            Object::All => return Ok(()),
            Object::Namespace(namespace) => (namespace, bad_namespace(namespace)),
            Object::Tree { namespace, tree } => {
                (namespace, bad_tree(namespace, tree, &self.to_string()))
            }
        };
        if let Some(why) = why {
            return Err(Usage::BadObject { object: self.to_string(), why }.into());
        }
        if namespace == SYSTEM {
            return Err(Denied::SystemTree(self.to_string()).into());
        }
        Ok(())
    }
}

/// Why the name is none of a namespace.
fn bad_namespace(namespace: &str) -> Option<&'static str> {
    if namespace.len() >= NAME_BYTES_MAX {
        Some("the namespace leaves no room for a name in 255 bytes")
    } else if namespace.contains('/') {
        Some("a namespace ends at the first slash")
    } else if namespace.chars().any(char::is_control) {
        Some("it holds a control character")
    } else {
        None
    }
}

/// Why `name`, of these parts, is none of a tree that can be an object.
fn bad_tree(namespace: &str, tree: &str, name: &str) -> Option<&'static str> {
    if tree == "*" {
        return Some("a tree named * is reached only with all of its namespace");
    }
    match NameRef::new(name) {
        Err(Error::Usage(Usage::BadName { why, .. })) => Some(why),
        Ok(name) if name.namespace() == namespace && name.tree() == tree => None,
        _ => Some("a namespace ends at the first slash"),
    }
}

/// Checks the name of a namespace whose state is to be set.
///
/// # Errors
/// [`Usage::BadObject`], [`Denied::SystemTree`].
pub(super) fn check_namespace(namespace: &str) -> Result<()> {
    Object::Namespace(namespace.to_owned()).check()
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::All => f.write_str("*"),
            Object::Namespace(namespace) => write!(f, "{namespace}/*"),
            Object::Tree { namespace, tree } if namespace.is_empty() => f.write_str(tree),
            Object::Tree { namespace, tree } => write!(f, "{namespace}/{tree}"),
        }
    }
}

impl FromStr for Object {
    type Err = Error;

    fn from_str(text: &str) -> Result<Object> {
        let object = match text.split_once('/') {
            None if text == "*" => Object::All,
            None => Object::Tree { namespace: String::new(), tree: text.to_owned() },
            Some((namespace, "*")) => Object::Namespace(namespace.to_owned()),
            Some(("", _)) => {
                let why = "its namespace is empty";
                return Err(Usage::BadObject { object: text.to_owned(), why }.into());
            }
            Some((namespace, tree)) => {
                Object::Tree { namespace: namespace.to_owned(), tree: tree.to_owned() }
            }
        };
        object.check()?;
        Ok(object)
    }
}

/// Whether a namespace may be written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadOnly {
    /// It may.
    #[default]
    No,
    /// Only by accounts with [`SUPER`](super::Rights::SUPER) or [`MAINTENANCE`](super::Rights::MAINTENANCE).
    Yes,
    /// By nobody.
    Super,
}

impl ReadOnly {
    /// Whether an account with these rights on the namespace may write in it.
    pub(crate) fn lets_write(self, rights: Rights) -> bool {
        match self {
            ReadOnly::No => true,
            ReadOnly::Yes => rights.intersects(Rights::SUPER | Rights::MAINTENANCE),
            ReadOnly::Super => false,
        }
    }

    /// As records have it, and words in memory: never another meaning for the same number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            ReadOnly::No => 0,
            ReadOnly::Yes => 1,
            ReadOnly::Super => 2,
        }
    }

    /// Of a code. One that nobody gives cannot be read, and counts as `Yes`.
    pub(crate) const fn from_code(code: u8) -> ReadOnly {
        match code {
            0 => ReadOnly::No,
            2 => ReadOnly::Super,
            _ => ReadOnly::Yes,
        }
    }
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadOnly::No => "no",
            ReadOnly::Yes => "yes",
            ReadOnly::Super => "super",
        })
    }
}

/// Reads `no`, `yes` and `super`, in any case.
impl FromStr for ReadOnly {
    type Err = Error;

    fn from_str(text: &str) -> Result<ReadOnly> {
        [ReadOnly::No, ReadOnly::Yes, ReadOnly::Super]
            .into_iter()
            .find(|state| state.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| Usage::BadReadOnly(text.to_owned()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(namespace: &str, tree: &str) -> Object {
        Object::Tree { namespace: namespace.into(), tree: tree.into() }
    }

    #[test]
    fn every_object_reads_as_it_is_written() {
        let long = "n".repeat(254);
        for (text, object) in [
            ("*", Object::All),
            ("/*", Object::Namespace(String::new())),
            ("shop/*", Object::Namespace("shop".into())),
            ("*/*", Object::Namespace("*".into())),
            ("shop/orders", tree("shop", "orders")),
            ("shop/2026/*", tree("shop", "2026/*")),
            ("orders", tree("", "orders")),
            ("*/x", tree("*", "x")),
            ("latch", tree("", "latch")),
            ("latchkv", tree("", "latchkv")),
            (&format!("{long}/*"), Object::Namespace(long.clone())),
        ] {
            assert_eq!(text.parse::<Object>().expect(text), object);
            assert_eq!(object.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_reason() {
        let long = "n".repeat(255);
        for (text, why) in [
            ("", "empty"),
            ("/", "namespace is empty"),
            ("/x", "namespace is empty"),
            ("//x", "namespace is empty"),
            ("shop/", "nothing follows"),
            ("a\tb", "control"),
            ("a\0/*", "control"),
            (&format!("{long}/*"), "no room"),
            (&format!("{long}x"), "255"),
        ] {
            match text.parse::<Object>() {
                Err(Error::Usage(Usage::BadObject { object, why: said })) => {
                    assert_eq!(object, text);
                    assert!(said.contains(why), "{text:?}: {said}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn made_up_objects_that_no_text_gives_are_refused() {
        for object in [
            tree("", "*"),
            tree("shop", "*"),
            tree("", "a/b"),
            tree("a/b", "c"),
            tree("shop", ""),
            Object::Namespace("a/b".into()),
        ] {
            assert!(
                matches!(object.check(), Err(Error::Usage(Usage::BadObject { .. }))),
                "{object:?}"
            );
        }
    }

    #[test]
    fn the_namespace_of_the_system_is_no_object() {
        for text in ["latchkv/*", "latchkv/accounts", "latchkv/x/y"] {
            let refused = text.parse::<Object>();
            assert!(
                matches!(refused, Err(Error::Denied(Denied::SystemTree(name))) if name == text)
            );
        }
        assert!(check_namespace(SYSTEM).is_err());
        assert!(check_namespace("").is_ok() && check_namespace("shop").is_ok());
    }

    #[test]
    fn states_read_as_they_are_written() {
        for state in [ReadOnly::No, ReadOnly::Yes, ReadOnly::Super] {
            assert_eq!(
                state.to_string().to_uppercase().parse::<ReadOnly>().expect("a state"),
                state
            );
        }
        assert!(matches!("on".parse::<ReadOnly>(), Err(Error::Usage(Usage::BadReadOnly(_)))));
    }
}
