//! Passwords: argon2id, computed and compared without leaving copies behind.
//!
//! A hash is kept as a PHC string, which has its own parameters and salt:
//!
//! ```text
//! $argon2id$v=19$m=19456,t=2,p=1$<salt, 16 bytes in base64>$<hash, 32 bytes in base64>
//! ```
//!
//! * [W1] Memory that a password went through is overwritten with zeros: the blocks of argon2 by this file, what
//!   argon2 and blake2 keep besides by them. The caller's copy is the caller's.
//! * [W2] A computed hash is compared with the stored one in a time that does not depend on where they differ.
//! * [W3] A stored hash asks for no more than [`PasswordCost`] allows: damaged bytes do not take all memory.
//! * [W4] Neither password nor hash is in any `Debug` or error.

use crate::error::{Error, Result, Usage};
use argon2::password_hash::phc::{self, Output, ParamsString, Salt};
use argon2::password_hash::try_generate_salt;
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Block, Params, Version};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroize;

/// Greatest password, in bytes.
pub(super) const PASSWORD_BYTES_MAX: usize = 1024;

const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

/// What computing the hash of a password costs, so that guessing costs the same. The hash keeps the cost it was made
/// with; a new one holds for passwords that are set from then on.
///
/// The default is the least that OWASP advises for argon2id: 19 MiB, 2 passes, 1 lane; some tens of milliseconds of one
/// core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// Least and greatest of each parameter.
const MEMORY_KIB: std::ops::RangeInclusive<u32> = 8..=1 << 20;
const PASSES: std::ops::RangeInclusive<u32> = 1..=1000;
const LANES: std::ops::RangeInclusive<u32> = 1..=16;

impl Default for PasswordCost {
    fn default() -> PasswordCost {
        PasswordCost { memory_kib: 19 * 1024, passes: 2, lanes: 1 }
    }
}

impl PasswordCost {
    /// Memory in KiB, 8 to 1048576 and at least 8 for each lane; passes over it, 1 to 1000; lanes, 1 to 16, which are
    /// computed one after the other.
    ///
    /// # Errors
    /// [`Usage::BadOption`].
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<PasswordCost> {
        let bad = |option, actual: u32, least: u32, most: u32| {
            let (actual, allowed) = (actual.to_string(), format!("{least} to {most}"));
            Err(Usage::BadOption { option, actual, allowed }.into())
        };
        if !PASSES.contains(&passes) {
            return bad("passes", passes, *PASSES.start(), *PASSES.end());
        }
        if !LANES.contains(&lanes) {
            return bad("lanes", lanes, *LANES.start(), *LANES.end());
        }
        let least = MEMORY_KIB.start() * lanes;
        if !(least..=*MEMORY_KIB.end()).contains(&memory_kib) {
            return bad("memory_kib", memory_kib, least, *MEMORY_KIB.end());
        }
        Ok(PasswordCost { memory_kib, passes, lanes })
    }

    /// The least: for tests, guards nothing.
    pub const fn least() -> PasswordCost {
        PasswordCost { memory_kib: 8, passes: 1, lanes: 1 }
    }

    fn params(self) -> Params {
        Params::new(self.memory_kib, self.passes, self.lanes, Some(HASH_BYTES))
            .expect("a cost is within what argon2 allows")
    }
}

/// The hash of a password, whole: [`verify`](Self::verify) cannot fail to read it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PasswordHash {
    text: Arc<str>,
    cost: PasswordCost,
    salt: Salt,
    hash: Output,
}

/// [W4]
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash").field("cost", &self.cost).finish_non_exhaustive()
    }
}

impl PasswordHash {
    /// Hashes a password with a new salt.
    ///
    /// # Errors
    /// [`Usage::BadPassword`]; [`Error::Io`] if the system gives no random bytes; [`Error::Full`] if there is no memory.
    pub(super) fn new(password: &[u8], cost: PasswordCost) -> Result<PasswordHash> {
        if !(1..=PASSWORD_BYTES_MAX).contains(&password.len()) {
            return Err(Usage::BadPassword.into());
        }
        // Of the operating system; 16 bytes as PHC recommends.
        let salt = try_generate_salt().map_err(no_random_bytes)?;
        let salt = Salt::new(&salt).expect("16 bytes are a salt");
        let hash = compute(password, &salt, cost)?;
        let phc = phc::PasswordHash {
            algorithm: ARGON2ID_IDENT,
            version: Some(Version::V0x13.into()),
            params: ParamsString::try_from(&cost.params())
                .expect("parameters that argon2 accepted have a text"),
            salt: Some(salt),
            hash: Some(hash),
        };
        Ok(PasswordHash { text: phc.to_string().into(), cost, salt, hash })
    }

    /// Reads a PHC string. `None`: it is none that [`new`](Self::new) gives. [W3]
    pub(super) fn parse(text: &str) -> Option<PasswordHash> {
        let phc = phc::PasswordHash::new(text).ok()?;
        let params = Params::try_from(&phc).ok()?;
        let cost = PasswordCost::new(params.m_cost(), params.t_cost(), params.p_cost()).ok()?;
        let (salt, hash) = (phc.salt?, phc.hash?);
        let version = phc.version.map(Version::try_from)?.ok()?;
        let plain = params.keyid().is_empty() && params.data().is_empty();
        let whole = phc.algorithm == ARGON2ID_IDENT
            && version == Version::V0x13
            && plain
            && salt.as_ref().len() == SALT_BYTES
            && hash.as_ref().len() == HASH_BYTES;
        whole.then(|| PasswordHash { text: text.into(), cost, salt, hash })
    }

    /// The PHC string.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is the hash of this password. Computes one whatever the password is, also if no account can have it.
    /// [W2]
    ///
    /// # Errors
    /// [`Error::Full`] if there is no memory.
    pub(super) fn verify(&self, password: &[u8]) -> Result<bool> {
        let possible = (1..=PASSWORD_BYTES_MAX).contains(&password.len());
        let hash = compute(if possible { password } else { b"?" }, &self.salt, self.cost)?;
        // `Output` compares in constant time.
        let equal = hash == self.hash;
        Ok(equal & possible)
    }
}

/// [W1]
fn compute(password: &[u8], salt: &Salt, cost: PasswordCost) -> Result<Output> {
    let params = cost.params();
    let count = params.block_count();
    let mut blocks = Vec::new();
    if blocks.try_reserve_exact(count).is_err() {
        return Err(no_memory());
    }
    blocks.resize(count, Block::new());
    let mut hash = [0; HASH_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let computed = argon2.hash_password_into_with_memory(
        password,
        salt.as_ref(),
        &mut hash,
        blocks.as_mut_slice(),
    );
    blocks.iter_mut().for_each(Zeroize::zeroize);
    let output = Output::new(&hash).expect("32 bytes are an output");
    hash.zeroize();
    computed.expect("lengths of password, salt and hash are within what argon2 allows");
    Ok(output)
}

#[cold]
fn no_memory() -> Error {
    let source = Arc::new(std::io::ErrorKind::OutOfMemory.into());
    Error::Full { op: "hash a password", source }
}

#[cold]
fn no_random_bytes(error: impl fmt::Display) -> Error {
    let source = Arc::new(std::io::Error::other(error.to_string()));
    Error::Io { op: "getting random bytes for a salt", path: "the operating system".into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_cost_is_that_of_owasp_and_the_hash_says_so() {
        let hash = PasswordHash::new(b"correct horse", PasswordCost::default()).expect("memory");
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.as_str());
        assert!(hash.verify(b"correct horse").expect("memory"));
        assert!(!hash.verify(b"correct horsf").expect("memory"));
    }

    #[test]
    fn a_hash_reads_as_it_is_written_and_keeps_its_own_cost() {
        let cost = PasswordCost::new(64, 3, 2).expect("in range");
        let hash = PasswordHash::new(b"secret", cost).expect("memory");
        let read = PasswordHash::parse(hash.as_str()).expect("whole");
        assert_eq!(read, hash);
        assert_eq!(read.cost, cost);
        assert!(read.verify(b"secret").expect("memory"));
        let again = PasswordHash::new(b"secret", cost).expect("memory");
        assert_ne!(again.as_str(), hash.as_str(), "two salts are never the same");
    }

    #[test]
    fn passwords_have_one_to_1024_bytes_and_others_never_match() {
        let least = PasswordCost::least();
        for bad in [&b""[..], &[b'x'; 1025]] {
            let refused = PasswordHash::new(bad, least);
            assert!(matches!(refused, Err(Error::Usage(Usage::BadPassword))));
        }
        let longest = PasswordHash::new(&[b'x'; 1024], least).expect("memory");
        assert!(longest.verify(&[b'x'; 1024]).expect("memory"));
        assert!(!longest.verify(&[b'x'; 1025]).expect("memory"));
        // What stands in for an impossible password must not open an account that has it.
        let standin = PasswordHash::new(b"?", least).expect("memory");
        assert!(!standin.verify(b"").expect("memory"));
        assert!(standin.verify(b"?").expect("memory"));
        assert!(
            PasswordHash::new(&[0, 255, 0], least)
                .expect("memory")
                .verify(&[0, 255, 0])
                .expect("memory")
        );
    }

    #[test]
    fn nothing_but_a_whole_hash_of_bounded_cost_is_read() {
        let hash = PasswordHash::new(b"secret", PasswordCost::least()).expect("memory");
        let text = hash.as_str();
        for end in 0..text.len() {
            assert_eq!(PasswordHash::parse(&text[..end]), None, "cut at {end}");
        }
        for (from, to) in [
            ("argon2id", "argon2i"),
            ("argon2id", "scrypt"),
            ("v=19", "v=16"),
            ("m=8", "m=4294967295"),
            ("m=8", "m=7"),
            ("t=1", "t=4000000000"),
            ("t=1", "t=0"),
            ("p=1", "p=17"),
            ("p=1", "p=2"),
            ("p=1", "p=1,keyid=AAAA"),
            ("$v=19", ""),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_eq!(PasswordHash::parse(&bad), None, "{from} -> {to}");
        }
    }

    #[test]
    fn costs_out_of_range_are_refused_by_name() {
        for (cost, option) in [
            ((7, 1, 1), "memory_kib"),
            ((15, 1, 2), "memory_kib"),
            ((1 << 21, 1, 1), "memory_kib"),
            ((64, 0, 1), "passes"),
            ((64, 1001, 1), "passes"),
            ((64, 1, 0), "lanes"),
            ((1024, 1, 17), "lanes"),
        ] {
            match PasswordCost::new(cost.0, cost.1, cost.2) {
                Err(Error::Usage(Usage::BadOption { option: said, .. })) => {
                    assert_eq!(said, option)
                }
                other => panic!("{cost:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn neither_password_nor_hash_is_shown() {
        let hash = PasswordHash::new(b"hunter2", PasswordCost::least()).expect("memory");
        let shown = format!("{hash:?}");
        let secret = hash.as_str().rsplit('$').next().expect("a hash");
        assert!(!shown.contains(secret) && !shown.contains("hunter2"), "{shown}");
    }
}
