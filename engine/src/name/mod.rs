//! Names of trees: checked once, hashed once.
//!
//! ```text
//!   shop/orders/2026         orders              latchkv/accounts
//!   ---- -----------         ------              -------
//!   namespace  rest          unnamed namespace   the system's namespace
//! ```
//!
//! What stands before the first `/` is the namespace. A [`Name`] carries the hash of its namespace and that of the
//! whole, which is computed from it, so each byte is hashed once. Tables that find trees and locks take these hashes.
//!
//! * [N1] The hashes of a [`NameRef`] are those of its text.
//!
//! Tested below; what an operation hashes is counted by `engine/tests/counted.rs`.

mod hash;

use crate::error::{Denied, Result, Usage};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// Greatest name, in bytes of UTF-8.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The namespace of system trees.
pub(crate) const SYSTEM: &str = "latchkv";

#[cfg(debug_assertions)]
thread_local! {
    static HASHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many names this thread has hashed; 0 in builds without debug assertions. For tests that count.
#[doc(hidden)]
pub fn names_hashed() -> u64 {
    #[cfg(debug_assertions)]
    return HASHED.get();
    #[cfg(not(debug_assertions))]
    return 0;
}

/// The hash of a part of a name. For measurement only: no part of the API, and free to change or go.
#[cfg(feature = "measure")]
#[doc(hidden)]
#[inline]
pub fn hash_of_part(bytes: &[u8]) -> u64 {
    hash::hash(bytes)
}

/// The name of a tree with its hashes, checked once. Cheap to clone.
///
/// Names are UTF-8, of 1 to 255 bytes, without control characters. What stands before the first `/` is the namespace;
/// if there is one, neither part may be empty. A name without it is in the unnamed namespace. No tree can be made with a
/// part that is `*` alone, which stands for all trees where rights are granted.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// let name = latchkv::Name::new("shop/orders")?;
/// assert_eq!((name.namespace(), name.tree()), ("shop", "orders"));
/// assert_eq!(latchkv::Name::new("orders")?.namespace(), "");
/// assert!(latchkv::Name::new("shop/").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Name {
    text: Arc<str>,
    namespace_len: u8,
    hash: u64,
    namespace_hash: u64,
}

/// A [`Name`] that is borrowed: what lookups take.
#[derive(Clone, Copy)]
pub struct NameRef<'a> {
    text: &'a str,
    /// 0 in the unnamed namespace.
    namespace_len: u8,
    hash: u64,
    namespace_hash: u64,
}

/// What names a tree: a [`Name`], whose hash is ready, or a string, which is checked and hashed on the way. Strings
/// name also trees that were made before names had parts, one of which may be empty.
pub trait AsName {
    /// The name.
    ///
    /// # Errors
    /// [`Usage::BadName`].
    fn as_name(&self) -> Result<NameRef<'_>>;
}

impl Name {
    /// Checks and hashes a name.
    ///
    /// # Errors
    /// [`Usage::BadName`].
    pub fn new(text: &str) -> Result<Name> {
        NameRef::new(text).map(NameRef::to_name)
    }

    /// As [`new`](Self::new), of bytes that may be no UTF-8.
    ///
    /// # Errors
    /// [`Usage::BadName`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Name> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Name::new(text),
            Err(_) => {
                let name = String::from_utf8_lossy(bytes).into_owned();
                Err(Usage::BadName { name, why: "it is not UTF-8" }.into())
            }
        }
    }

    /// It, borrowed.
    #[inline]
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef {
            text: &self.text,
            namespace_len: self.namespace_len,
            hash: self.hash,
            namespace_hash: self.namespace_hash,
        }
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The namespace; empty if it is the unnamed one.
    pub fn namespace(&self) -> &str {
        self.as_ref().namespace()
    }

    /// The name within the namespace.
    pub fn tree(&self) -> &str {
        self.as_ref().tree()
    }
}

impl<'a> NameRef<'a> {
    /// Checks and hashes a name.
    ///
    /// # Errors
    /// [`Usage::BadName`].
    pub fn new(text: &'a str) -> Result<NameRef<'a>> {
        NameRef::stored(text)?.checked_parts()
    }

    /// Refuses a name with an empty part.
    fn checked_parts(self) -> Result<NameRef<'a>> {
        let bare = self.namespace_len == 0;
        let why = if bare && self.text.starts_with('/') {
            "its namespace is empty"
        } else if !bare && self.tree().is_empty() {
            "nothing follows its namespace"
        } else {
            return Ok(self);
        };
        Err(bad_name(self.text, why))
    }

    /// Refuses a name that no new tree may have: with an empty part, or with one that is `*`, on which nothing could be
    /// granted, since it stands for everything, or for all of a namespace.
    pub(crate) fn for_new_tree(self) -> Result<NameRef<'a>> {
        if self.namespace() == "*" || self.tree() == "*" {
            return Err(bad_name(self.text, "a part of it is *, which stands for all trees"));
        }
        self.checked_parts()
    }

    /// Refuses the name of a tree of the system.
    ///
    /// # Errors
    /// [`Denied::SystemTree`].
    pub(crate) fn ordinary(self) -> Result<NameRef<'a>> {
        if self.is_system() {
            return Err(Denied::SystemTree(self.text.to_owned()).into());
        }
        Ok(self)
    }

    /// A name that a tree may have from before there were namespaces: a part may be empty.
    pub(crate) fn stored(text: &'a str) -> Result<NameRef<'a>> {
        let why = if text.is_empty() {
            "it is empty"
        } else if text.len() > NAME_BYTES_MAX {
            "it has more than 255 bytes"
        } else if text.chars().any(char::is_control) {
            "it holds a control character"
        } else {
            return Ok(NameRef::hashed(text));
        };
        Err(bad_name(text, why))
    }

    /// [N1]. Of a text that is not checked, and may be too long.
    pub(crate) fn hashed(text: &'a str) -> NameRef<'a> {
        #[cfg(debug_assertions)]
        HASHED.set(HASHED.get() + 1);
        let bytes = text.as_bytes();
        let head = &bytes[..bytes.len().min(NAME_BYTES_MAX)];
        let namespace_len = head.iter().position(|&byte| byte == b'/').unwrap_or(0);
        let (namespace, rest) = bytes.split_at(namespace_len);
        let namespace_hash = hash::hash(namespace);
        let hash = hash::join(namespace_hash, hash::hash(rest));
        NameRef { text, namespace_len: namespace_len as u8, hash, namespace_hash }
    }

    /// A copy that owns its text.
    pub fn to_name(self) -> Name {
        Name {
            text: self.text.into(),
            namespace_len: self.namespace_len,
            hash: self.hash,
            namespace_hash: self.namespace_hash,
        }
    }

    /// The whole name.
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// The namespace; empty if it is the unnamed one.
    pub fn namespace(self) -> &'a str {
        &self.text[..usize::from(self.namespace_len)]
    }

    /// The name within the namespace.
    pub fn tree(self) -> &'a str {
        match self.namespace_len {
            0 => self.text,
            len => &self.text[usize::from(len) + 1..],
        }
    }

    /// It is a tree of the system.
    pub(crate) fn is_system(self) -> bool {
        self.namespace() == SYSTEM
    }

    /// The hash of the whole name.
    #[inline]
    pub(crate) fn hash_of_name(self) -> u64 {
        self.hash
    }

    /// The hash of its namespace.
    #[inline]
    pub(crate) fn hash_of_namespace(self) -> u64 {
        self.namespace_hash
    }
}

#[cold]
fn bad_name(name: &str, why: &'static str) -> crate::error::Error {
    Usage::BadName { name: name.to_owned(), why }.into()
}

impl AsName for Name {
    #[inline]
    fn as_name(&self) -> Result<NameRef<'_>> {
        Ok(self.as_ref())
    }
}

impl AsName for NameRef<'_> {
    #[inline]
    fn as_name(&self) -> Result<NameRef<'_>> {
        Ok(*self)
    }
}

impl AsName for str {
    fn as_name(&self) -> Result<NameRef<'_>> {
        NameRef::stored(self)
    }
}

impl AsName for String {
    fn as_name(&self) -> Result<NameRef<'_>> {
        NameRef::stored(self)
    }
}

impl AsName for Arc<str> {
    fn as_name(&self) -> Result<NameRef<'_>> {
        NameRef::stored(self)
    }
}

impl<N: AsName + ?Sized> AsName for &N {
    #[inline]
    fn as_name(&self) -> Result<NameRef<'_>> {
        (**self).as_name()
    }
}

impl PartialEq for NameRef<'_> {
    #[inline]
    fn eq(&self, other: &NameRef<'_>) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for NameRef<'_> {}

impl PartialEq for Name {
    #[inline]
    fn eq(&self, other: &Name) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for Name {}

impl Hash for NameRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for Name {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// What tables of [`Name`]s are asked by, owned or borrowed.
pub(crate) trait Named {
    /// The name.
    fn named(&self) -> NameRef<'_>;
}

impl Named for Name {
    #[inline]
    fn named(&self) -> NameRef<'_> {
        self.as_ref()
    }
}

impl Named for NameRef<'_> {
    #[inline]
    fn named(&self) -> NameRef<'_> {
        *self
    }
}

impl<'a> std::borrow::Borrow<dyn Named + 'a> for Name {
    #[inline]
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl PartialEq for dyn Named + '_ {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.named() == other.named()
    }
}

impl Eq for dyn Named + '_ {}

impl Hash for dyn Named + '_ {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.named().hash(state);
    }
}

/// For tables of what is hashed already: the hash goes through as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadyHash(u64);

impl BuildHasher for ReadyHash {
    type Hasher = ReadyHash;

    #[inline]
    fn build_hasher(&self) -> ReadyHash {
        ReadyHash(0)
    }
}

impl Hasher for ReadyHash {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Names write one u64; whatever else comes is mixed in, slowly.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_name_splits_at_its_first_slash() {
        for (text, namespace, tree) in [
            ("orders", "", "orders"),
            ("shop/orders", "shop", "orders"),
            ("logs/2026/11", "logs", "2026/11"),
            ("a//b", "a", "/b"),
            ("schön/ä", "schön", "ä"),
        ] {
            let name = Name::new(text).expect(text);
            assert_eq!((name.namespace(), name.tree()), (namespace, tree));
            assert_eq!(name.as_str(), text);
        }
    }

    #[test]
    fn names_that_are_not_allowed_are_refused_with_the_reason() {
        let long = "x".repeat(256);
        for (text, why) in [
            ("", "empty"),
            ("/x", "namespace is empty"),
            ("x/", "nothing follows"),
            ("/", "namespace is empty"),
            ("a\nb", "control"),
            ("a\0", "control"),
            ("a/\u{7f}", "control"),
            (&long, "255"),
        ] {
            match Name::new(text) {
                Err(Error::Usage(Usage::BadName { name, why: said })) => {
                    assert_eq!(name, text);
                    assert!(said.contains(why), "{text:?}: {said}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
        assert!(Name::new(&long[..255]).is_ok());
        let error = Name::from_bytes(b"a\xff").expect_err("no UTF-8");
        assert!(error.to_string().contains("not UTF-8"), "{error}");
        assert_eq!(Name::from_bytes(b"a/b").expect("a name"), Name::new("a/b").expect("a name"));
    }

    #[test]
    fn hashes_are_of_the_text_and_differ_by_where_the_namespace_ends() {
        let hash = |text: &str| Name::new(text).expect(text).as_ref().hash_of_name();
        assert_eq!(hash("a/b"), hash(&String::from("a/b")));
        assert_ne!(hash("a/bc"), hash("ab/c"));
        assert_ne!(hash("a/b"), hash("b/a"));
        let namespace = |text: &str| Name::new(text).expect(text).as_ref().hash_of_namespace();
        assert_eq!(namespace("shop/a"), namespace("shop/b"));
        assert_ne!(namespace("shop/a"), namespace("shop2/a"));
        assert_eq!(namespace("a"), namespace("b"));
    }

    #[cfg(feature = "measure")]
    #[test]
    fn the_hash_that_is_measured_is_the_one_that_names_carry() {
        let name = Name::new("shop/orders").expect("a name");
        assert_eq!(hash_of_part(b"shop"), name.as_ref().hash_of_namespace());
        let whole = hash::join(hash_of_part(b"shop"), hash_of_part(b"/orders"));
        assert_eq!(whole, name.as_ref().hash_of_name());
    }

    #[test]
    fn a_ready_name_is_not_hashed_again() {
        let name = Name::new("shop/orders").expect("a name");
        let before = names_hashed();
        let copy = name.clone();
        assert_eq!(copy.as_name().expect("ready"), name.as_ref());
        let mut table = std::collections::HashMap::with_hasher(ReadyHash::default());
        table.insert(name.clone(), 1);
        assert_eq!(table.get(&copy), Some(&1));
        assert_eq!(names_hashed(), before);
        "shop/orders".as_name().expect("a name");
        assert_eq!(names_hashed(), before + u64::from(cfg!(debug_assertions)));
    }
}
