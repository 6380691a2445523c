//! Names of accounts, and what tells an account from a later one of the same name.

use crate::error::{Error, Result, Usage};
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Greatest name of an account, in bytes of UTF-8.
pub(super) const ACCOUNT_NAME_BYTES_MAX: usize = 64;

/// The name of a user or role: 1 to 64 bytes of UTF-8 without control characters, `/` and `,`. Names are equal if their
/// bytes are; users and roles share one set of names. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(Arc<str>);

impl AccountName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`Usage::BadAccountName`].
    pub fn new(text: &str) -> Result<AccountName> {
        let why = if text.is_empty() {
            "it is empty"
        } else if text.len() > ACCOUNT_NAME_BYTES_MAX {
            "it has more than 64 bytes"
        } else if text.chars().any(char::is_control) {
            "it holds a control character"
        } else if text.contains(['/', ',']) {
            "it holds a slash or a comma"
        } else {
            return Ok(AccountName(text.into()));
        };
        Err(Usage::BadAccountName { name: text.to_owned(), why }.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for AccountName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for AccountName {
    type Err = Error;

    fn from_str(text: &str) -> Result<AccountName> {
        AccountName::new(text)
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An account, and never a later one of the same name: a session of an account that was dropped has no rights, whoever
/// bears the name now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AccountId(pub(super) u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_allowed_are_refused_with_the_reason() {
        let long = "ä".repeat(33);
        for (text, why) in [
            ("", "empty"),
            (long.as_str(), "64"),
            ("a\0b", "control"),
            ("a\u{85}", "control"),
            ("a/b", "slash"),
            ("a,b", "comma"),
        ] {
            match AccountName::new(text) {
                Err(Error::Usage(Usage::BadAccountName { name, why: said })) => {
                    assert_eq!(name, text);
                    assert!(said.contains(why), "{text:?}: {said}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
        for text in ["a", "Ada Lovelace", "root@host", "ä", &long[..64]] {
            assert_eq!(AccountName::new(text).expect(text).as_str(), text);
        }
        assert_ne!(
            AccountName::new("ada").expect("a name"),
            AccountName::new("Ada").expect("a name")
        );
    }
}
