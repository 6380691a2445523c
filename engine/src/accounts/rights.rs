//! What an account may do, as a set of bits.
//!
//! ```text
//!  15         7 6           5     4     3    2      1     0
//! [  0 : 9     ][MAINTENANCE][SUPER][GRANT][DROP][CREATE][WRITE][READ]
//! ```
//!
//! The bits are those of the records in `latchkv/grants`: a bit never gets another meaning.

use crate::error::{Error, Usage};
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// A set of rights. Each is granted on an [`Object`](super::Object), and allows what it says with the trees that the object
/// holds:
///
/// | right | allows |
/// |---|---|
/// | READ | reading records: `get`, ranges, `len`, snapshots, watches |
/// | WRITE | putting and deleting records; clearing a tree, together with DROP |
/// | CREATE | making trees, and giving a tree a name that the object holds; making the namespace |
/// | DROP | dropping trees, taking a tree its name, clearing it (with WRITE); dropping the namespace |
/// | GRANT | granting what one holds oneself on the object, and revoking it |
/// | MAINTENANCE | writing while the namespace is read-only, setting that state, rebuilding trees; on everything also checkpoints, `check_database` and `stats`. On everything or a namespace |
/// | SUPER | users, roles and anybody's password; granting and revoking every right, held or not; writing in read-only namespaces, and every state of them; audit events; reading the system's trees; backups, with READ. On everything only |
///
/// No right contains another: who has SUPER and not READ reads no records, but can grant itself READ. So SUPER is the last
/// resort for rights that nobody has any more, and there is always a user who has it.
///
/// Rights go by names, not by trees: they are there before a tree is made, stay when it is dropped and hold for the next of
/// that name, and do not follow a tree that gets another name.
///
/// ```
/// use latchkv::Rights;
/// let rights: Rights = "read, write".parse()?;
/// assert_eq!(rights, Rights::READ | Rights::WRITE);
/// assert_eq!(rights.to_string(), "READ,WRITE");
/// # Ok::<(), latchkv::Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rights(u16);

/// All rights with their names, from the lowest bit.
const NAMED: [(Rights, &str); 7] = [
    (Rights::READ, "READ"),
    (Rights::WRITE, "WRITE"),
    (Rights::CREATE, "CREATE"),
    (Rights::DROP, "DROP"),
    (Rights::GRANT, "GRANT"),
    (Rights::SUPER, "SUPER"),
    (Rights::MAINTENANCE, "MAINTENANCE"),
];

impl Rights {
    /// None.
    pub const NONE: Rights = Rights(0);
    /// To read records.
    pub const READ: Rights = Rights(1);
    /// To put and delete records.
    pub const WRITE: Rights = Rights(1 << 1);
    /// To create trees and namespaces.
    pub const CREATE: Rights = Rights(1 << 2);
    /// To drop, clear and rename trees, and to drop namespaces.
    pub const DROP: Rights = Rights(1 << 3);
    /// To grant what one holds oneself, and to take it away.
    pub const GRANT: Rights = Rights(1 << 4);
    /// To change accounts, roles, every right and every state of a namespace. Granted on everything only.
    pub const SUPER: Rights = Rights(1 << 5);
    /// To write in a namespace that is read-only, and to make it so. Granted on everything or on a namespace.
    pub const MAINTENANCE: Rights = Rights(1 << 6);
    /// Every right there is.
    pub const ALL: Rights = Rights((1 << 7) - 1);

    /// All of `other` are among these.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// Some of `other` are among these.
    #[inline]
    #[must_use]
    pub const fn intersects(self, other: Rights) -> bool {
        self.0 & other.0 != 0
    }

    /// There are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of both.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Those that both have.
    #[must_use]
    pub const fn intersection(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }

    /// Those that `other` lacks.
    #[must_use]
    pub const fn difference(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }

    /// As a record has them.
    pub(super) const fn bits(self) -> u16 {
        self.0
    }

    /// Of a record. `None`: there are bits without a meaning, or none at all.
    pub(super) const fn from_bits(bits: u16) -> Option<Rights> {
        if bits == 0 || bits & !Rights::ALL.0 != 0 { None } else { Some(Rights(bits)) }
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        self.union(other)
    }
}

/// Names with commas between; `NONE` for no rights.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (right, name) in NAMED {
            if self.contains(right) {
                write!(f, "{separator}{name}")?;
                separator = ",";
            }
        }
        if self.is_empty() { f.write_str("NONE") } else { Ok(()) }
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

/// Reads names with commas between, in any case, and `ALL`; at least one.
impl FromStr for Rights {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rights, Error> {
        let mut rights = Rights::NONE;
        for word in text.split(',').map(str::trim) {
            let named = NAMED.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
            rights = rights.union(match named {
                Some(&(right, _)) => right,
                None if word.eq_ignore_ascii_case("ALL") => Rights::ALL,
                None => return Err(Usage::BadRights(text.to_owned()).into()),
            });
        }
        Ok(rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_reads_as_it_is_written() {
        for bits in 1..=Rights::ALL.0 {
            let rights = Rights::from_bits(bits).expect("all bits have a meaning");
            assert_eq!(rights.to_string().parse::<Rights>().expect("names"), rights);
            assert_eq!(rights.to_string().split(',').count() as u32, bits.count_ones());
        }
        assert_eq!(Rights::NONE.to_string(), "NONE");
        assert_eq!("all".parse::<Rights>().expect("a name"), Rights::ALL);
        assert_eq!(" Read ,sUPER".parse::<Rights>().expect("names"), Rights::READ | Rights::SUPER);
    }

    #[test]
    fn unknown_names_are_refused_with_those_that_are_known() {
        for text in ["", "NONE", "READ,", "READ WRITE", "EXECUTE", ","] {
            let error = text.parse::<Rights>().expect_err(text);
            assert!(matches!(&error, Error::Usage(Usage::BadRights(bad)) if bad == text));
            assert!(error.to_string().contains("MAINTENANCE"), "{error}");
        }
    }

    #[test]
    fn bits_without_a_meaning_are_no_rights() {
        assert_eq!(Rights::from_bits(0), None);
        for bits in [1 << 7, u16::MAX, 0x8001] {
            assert_eq!(Rights::from_bits(bits), None);
        }
    }

    #[test]
    fn sets_are_united_and_compared_as_sets() {
        let both = Rights::READ | Rights::DROP;
        assert!(both.contains(Rights::READ) && both.contains(both) && both.contains(Rights::NONE));
        assert!(!Rights::READ.contains(both) && both.intersects(Rights::READ | Rights::WRITE));
        assert!(!both.intersects(Rights::NONE));
        assert_eq!(both.difference(Rights::READ), Rights::DROP);
        assert_eq!(both.intersection(Rights::READ | Rights::WRITE), Rights::READ);
    }
}
