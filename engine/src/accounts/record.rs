//! The records of the system trees as bytes.
//!
//! | tree | key | value |
//! |---|---|---|
//! | `latchkv/accounts` | name | `[1][kind][0 : 6 bytes][id : 8 bytes]`, then the PHC string of a user |
//! | `latchkv/members` | member `\0` role | `[1]` |
//! | `latchkv/grants` | grantee `\0` object as text | `[1][0][rights : 2 bytes]` |
//! | `latchkv/namespaces` | namespace, `/` for the unnamed one | `[1][state]` |
//!
//! The first byte of a value is the version of its layout. Numbers are little-endian. Kind: `u` user, `r` role. State:
//! `0` no, `1` yes, `2` super. The unnamed namespace has a record only while it is read-only; in old files its key is
//! empty, which is read still, but no longer written, since LMDB takes no empty keys out of a dump. No name holds `\0`, so keys are unambiguous, and one grantee's grants lie together.
//!
//! * [B1] What is read is what was written, or nothing: lengths, padding, names, objects and bits are all checked, and
//!   no bytes make the reading panic.
//!
//! Tested below by writing and reading all kinds, and by every cut and every flipped bit of them.

use super::name::{AccountId, AccountName};
use super::object::{Object, ReadOnly, check_namespace};
use super::password::PasswordHash;
use super::rights::Rights;

const VERSION: u8 = 1;
const USER: u8 = b'u';
const ROLE: u8 = b'r';

/// Which tree a record is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SystemTree {
    Members,
    Grants,
    Namespaces,
    /// The last, so that if it is there, so are all.
    Accounts,
}

impl SystemTree {
    /// In the order in which they are created.
    pub(super) const ALL: [SystemTree; 4] =
        [SystemTree::Members, SystemTree::Grants, SystemTree::Namespaces, SystemTree::Accounts];

    pub(super) const fn name(self) -> &'static str {
        match self {
            SystemTree::Members => "latchkv/members",
            SystemTree::Grants => "latchkv/grants",
            SystemTree::Namespaces => "latchkv/namespaces",
            SystemTree::Accounts => "latchkv/accounts",
        }
    }
}

/// What `latchkv/accounts` has under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Account {
    pub(super) id: AccountId,
    /// None: it is a role.
    pub(super) hash: Option<PasswordHash>,
}

impl Account {
    pub(super) fn is_role(&self) -> bool {
        self.hash.is_none()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, if self.is_role() { ROLE } else { USER }, 0, 0, 0, 0, 0, 0];
        bytes.extend(self.id.0.to_le_bytes());
        bytes.extend(self.hash.iter().flat_map(|hash| hash.as_str().bytes()));
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Account> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let (id, text) = rest.split_first_chunk()?;
        let hash = match *head {
            [VERSION, USER, 0, 0, 0, 0, 0, 0] => {
                Some(PasswordHash::parse(std::str::from_utf8(text).ok()?)?)
            }
            [VERSION, ROLE, 0, 0, 0, 0, 0, 0] if text.is_empty() => None,
            _ => return None,
        };
        Some(Account { id: AccountId(u64::from_le_bytes(*id)), hash })
    }
}

fn name(bytes: &[u8]) -> Option<AccountName> {
    AccountName::new(std::str::from_utf8(bytes).ok()?).ok()
}

fn pair_key(first: &AccountName, second: &str) -> Vec<u8> {
    [first.as_str().as_bytes(), &[0], second.as_bytes()].concat()
}

fn split_pair(key: &[u8]) -> Option<(AccountName, &str)> {
    let at = key.iter().position(|&byte| byte == 0)?;
    Some((name(&key[..at])?, std::str::from_utf8(&key[at + 1..]).ok()?))
}

pub(super) fn account_key(name: &AccountName) -> Vec<u8> {
    name.as_str().as_bytes().to_vec()
}

pub(super) fn decode_account(key: &[u8], value: &[u8]) -> Option<(AccountName, Account)> {
    Some((name(key)?, Account::decode(value)?))
}

pub(super) fn member_key(member: &AccountName, role: &AccountName) -> Vec<u8> {
    pair_key(member, role.as_str())
}

/// The value of every membership.
pub(super) const MEMBER: [u8; 1] = [VERSION];

/// Member and role.
pub(super) fn decode_member(key: &[u8], value: &[u8]) -> Option<(AccountName, AccountName)> {
    let (member, role) = split_pair(key)?;
    (value == MEMBER).then_some((member, AccountName::new(role).ok()?))
}

pub(super) fn grant_key(grantee: &AccountName, object: &Object) -> Vec<u8> {
    pair_key(grantee, &object.to_string())
}

pub(super) fn encode_rights(rights: Rights) -> [u8; 4] {
    let [low, high] = rights.bits().to_le_bytes();
    [VERSION, 0, low, high]
}

pub(super) fn decode_grant(key: &[u8], value: &[u8]) -> Option<(AccountName, Object, Rights)> {
    let (grantee, object) = split_pair(key)?;
    let &[VERSION, 0, low, high] = value else { return None };
    let (object, rights) =
        (object.parse::<Object>().ok()?, Rights::from_bits(u16::from_le_bytes([low, high]))?);
    object.grantable().contains(rights).then_some((grantee, object, rights))
}

/// Key of the unnamed namespace, which no other can have.
const UNNAMED: &str = "/";
/// The same in old files.
pub(super) const UNNAMED_BEFORE: &[u8] = b"";

pub(super) fn namespace_key(namespace: &str) -> Vec<u8> {
    let key = if namespace.is_empty() { UNNAMED } else { namespace };
    key.as_bytes().to_vec()
}

pub(super) fn encode_state(state: ReadOnly) -> [u8; 2] {
    [VERSION, state.code()]
}

/// The name of a namespace and its state. A state that cannot be read is `Yes`; a name that cannot is nothing.
pub(super) fn decode_namespace<'k>(key: &'k [u8], value: &[u8]) -> Option<(&'k str, ReadOnly)> {
    let namespace = match std::str::from_utf8(key).ok()? {
        UNNAMED => "",
        namespace => namespace,
    };
    check_namespace(namespace).ok()?;
    let state = match value {
        &[VERSION, code] => ReadOnly::from_code(code),
        _ => ReadOnly::Yes,
    };
    Some((namespace, state))
}

#[cfg(test)]
mod tests {
    use super::super::password::PasswordCost;
    use super::*;

    fn name(text: &str) -> AccountName {
        AccountName::new(text).expect(text)
    }

    fn user() -> Account {
        let hash = PasswordHash::new(b"secret", PasswordCost::least()).expect("memory");
        Account { id: AccountId(0x0102_0304_0506_0708), hash: Some(hash) }
    }

    #[test]
    fn records_read_as_they_are_written() {
        for account in [user(), Account { id: AccountId(u64::MAX), hash: None }] {
            let read = decode_account(&account_key(&name("ada")), &account.encode());
            assert_eq!(read, Some((name("ada"), account)));
        }
        let (ada, staff) = (name("ada"), name("staff"));
        assert_eq!(decode_member(&member_key(&ada, &staff), &MEMBER), Some((ada.clone(), staff)));
        for text in ["*", "/*", "shop/*", "shop/orders", "orders", "shop/a/b/*"] {
            let object: Object = text.parse().expect(text);
            for rights in [Rights::READ, object.grantable(), Rights::GRANT | Rights::DROP] {
                let read = decode_grant(&grant_key(&ada, &object), &encode_rights(rights));
                assert_eq!(read, Some((ada.clone(), object.clone(), rights)));
            }
        }
        for namespace in ["", "shop", "*"] {
            for state in [ReadOnly::No, ReadOnly::Yes, ReadOnly::Super] {
                let key = namespace_key(namespace);
                assert_eq!(decode_namespace(&key, &encode_state(state)), Some((namespace, state)));
            }
        }
        let before = decode_namespace(UNNAMED_BEFORE, &encode_state(ReadOnly::Super));
        assert_eq!(before, Some(("", ReadOnly::Super)));
    }

    /// The bytes on disk: a change here needs a new version.
    #[test]
    fn the_layout_of_version_1_stays() {
        let role = Account { id: AccountId(0x0a0b), hash: None };
        assert_eq!(role.encode(), [1, b'r', 0, 0, 0, 0, 0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0]);
        let user = user().encode();
        assert_eq!(user[..16], [1, b'u', 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert!(user[16..].starts_with(b"$argon2id$v=19$m=8,t=1,p=1$"));
        assert_eq!(member_key(&name("ada"), &name("staff")), b"ada\0staff");
        assert_eq!(grant_key(&name("ada"), &Object::Namespace("shop".into())), b"ada\0shop/*");
        assert_eq!(encode_rights(Rights::MAINTENANCE | Rights::WRITE), [1, 0, 0x42, 0]);
        assert_eq!(encode_state(ReadOnly::Super), [1, 2]);
        assert_eq!(namespace_key("shop"), b"shop");
        assert_eq!(namespace_key(""), b"/", "LMDB takes no empty keys");
    }

    #[test]
    fn no_cut_of_a_record_reads_as_one_and_none_panics() {
        let (ada, staff) = (name("ada"), name("staff"));
        let account = user().encode();
        for end in 0..account.len() {
            assert_eq!(Account::decode(&account[..end]), None, "cut at {end}");
        }
        assert_eq!(Account::decode(&[&account[..], b"A"].concat()), None);
        let key = grant_key(&ada, &"shop/orders".parse().expect("an object"));
        let value = encode_rights(Rights::READ | Rights::GRANT);
        for end in 0..key.len() {
            let read = decode_grant(&key[..end], &value);
            // A shorter name of a tree is a name of a tree.
            assert!(read.is_none() || end > ada.as_str().len() + 1, "cut at {end}");
        }
        for end in 0..value.len() {
            assert_eq!(decode_grant(&key, &value[..end]), None);
        }
        let key = member_key(&ada, &staff);
        for end in 0..=ada.as_str().len() + 1 {
            assert_eq!(decode_member(&key[..end], &MEMBER), None);
        }
        assert_eq!(decode_member(&key, &[]), None);
        for value in [&[][..], &[1], &[1, 2, 0], &[2, 0], &[1, 3], &[255; 40]] {
            assert_eq!(
                decode_namespace(b"shop", value),
                Some(("shop", ReadOnly::Yes)),
                "{value:?}"
            );
        }
    }

    #[test]
    fn flipped_bits_of_a_record_are_found_or_read_as_another_and_none_panics() {
        let (ada, staff) = (name("ada"), name("staff"));
        let grant = grant_key(&ada, &"shop/orders".parse().expect("an object"));
        let rights = encode_rights(Rights::READ);
        let account = user().encode();
        let all: [(Vec<u8>, Vec<u8>); 4] = [
            (account_key(&ada), account.clone()),
            (member_key(&ada, &staff), MEMBER.to_vec()),
            (grant, rights.to_vec()),
            (namespace_key("shop"), encode_state(ReadOnly::Super).to_vec()),
        ];
        let flipped = |bytes: &[u8], bit: usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let read = |at: usize, key: &[u8], value: &[u8]| match at {
            0 => decode_account(key, value).is_some(),
            1 => decode_member(key, value).is_some(),
            2 => decode_grant(key, value).is_some(),
            _ => decode_namespace(key, value).is_some(),
        };
        for (at, (key, value)) in all.iter().enumerate() {
            for bit in 0..key.len() * 8 {
                read(at, &flipped(key, bit), value);
            }
            for bit in 0..value.len() * 8 {
                read(at, key, &flipped(value, bit));
            }
        }
        // Version, kind and padding are found, whatever is flipped.
        for bit in 0..8 * 8 {
            assert_eq!(Account::decode(&flipped(&account, bit)), None, "bit {bit}");
        }
        for bit in 0..2 * 8 {
            assert!(decode_grant(&all[2].0, &flipped(&rights, bit)).is_none(), "bit {bit}");
        }
        for bit in 0..2 * 8 {
            let value = flipped(&encode_state(ReadOnly::Super), bit);
            let (_, state) = decode_namespace(b"shop", &value).expect("the name is whole");
            assert!(state == ReadOnly::Yes || value == [1, 0], "bit {bit}: {state:?}");
        }
    }

    #[test]
    fn names_that_the_rules_forbid_are_damage() {
        let role = Account { id: AccountId(1), hash: None }.encode();
        for key in [&b""[..], b"a/b", b"a\xff", &[b'a'; 65]] {
            assert_eq!(decode_account(key, &role), None);
        }
        let wide = [("shop/*", Rights::SUPER), ("shop/orders", Rights::MAINTENANCE)];
        for (object, rights) in wide {
            let key = grant_key(&name("ada"), &object.parse().expect(object));
            assert_eq!(decode_grant(&key, &encode_rights(rights)), None, "{object}");
        }
        for key in [&b"ada\0latchkv/*"[..], b"ada\0shop/", b"ada", b"\0*", b"ada\0", b"ada\0a\0b"] {
            assert_eq!(decode_grant(key, &encode_rights(Rights::READ)), None);
        }
        for key in [&b"latchkv"[..], b"a/b", b"\x01"] {
            assert_eq!(decode_namespace(key, &encode_state(ReadOnly::No)), None);
        }
    }
}
