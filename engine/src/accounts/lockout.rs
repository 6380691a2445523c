//! Holds back those who guess passwords.
//!
//! From the fifth failed login of one name on, its logins are refused for a time that doubles with each further
//! failure:
//!
//! | failures | 1 to 4 | 5 | 6 | 7 | .. | 14 | 15 and more |
//! |---|---|---|---|---|---|---|---|
//! | wait, s | 0 | 1 | 2 | 4 | .. | 512 | 900 |
//!
//! A login within that time is refused without looking at the password, and counts for nothing; one that succeeds
//! forgets all. Names that no account has are held back alike, so waiting tells nothing.
//!
//! * [K1] The logins of one name go one after the other, by the mutex of its stripe, from before the table is looked at
//!   until the outcome is in it: many at once get no more guesses than one after the other. That also bounds how many
//!   hashes are computed at a time.
//! * [K2] The table holds hashes of names, keyed by random numbers of this process, in bounded number: names of any
//!   length take the same room, and nobody can choose names that meet. The name that failed longest ago leaves first.
//!
//! It is in memory: opening the database again forgets it. Whoever can do that has the files anyway.

use crate::error::{Denied, Result};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures that have no consequence.
const FREE_FAILURES: u32 = 4;
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// Names that the table holds.
const NAMES_MAX: usize = 4096;
const STRIPES: usize = 16;

/// A name, as the table knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct NameKey(u64);

impl NameKey {
    /// A number that is the same for the same name while the process runs.
    pub(super) fn number(self) -> u64 {
        self.0
    }
}

#[derive(Debug)]
struct Failures {
    count: u32,
    last: Instant,
    until: Instant,
}

/// Failed logins by name.
#[derive(Debug, Default)]
pub(super) struct Lockout {
    keys: RandomState,
    turns: [Mutex<()>; STRIPES],
    names: Mutex<HashMap<NameKey, Failures>>,
}

/// How long logins wait after so many failures.
fn wait_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES + 1) {
        None => Duration::ZERO,
        Some(beyond) => WAIT_MIN.saturating_mul(1 << beyond.min(31)).min(WAIT_MAX),
    }
}

impl Lockout {
    pub(super) fn key(&self, name: &str) -> NameKey {
        NameKey(self.keys.hash_one(name))
    }

    /// Waits until no other login of this name is going on. [K1]
    pub(super) fn turn(&self, key: NameKey) -> MutexGuard<'_, ()> {
        // A panic in a turn leaves nothing half done: the table has its own mutex.
        self.turns[(key.0 % STRIPES as u64) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> MutexGuard<'_, HashMap<NameKey, Failures>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a login while the name has to wait.
    ///
    /// # Errors
    /// [`Denied::LoginLocked`].
    pub(super) fn check(&self, key: NameKey, now: Instant) -> Result<()> {
        let names = self.names();
        let Some(failures) = names.get(&key) else { return Ok(()) };
        match failures.until.checked_duration_since(now) {
            Some(retry_after) if !retry_after.is_zero() => {
                Err(Denied::LoginLocked { retry_after }.into())
            }
            _ => Ok(()),
        }
    }

    /// Notes a failure.
    pub(super) fn failed(&self, key: NameKey, now: Instant) {
        let mut names = self.names();
        if names.len() >= NAMES_MAX && !names.contains_key(&key) {
            let oldest = names.iter().min_by_key(|(_, failures)| failures.last);
            if let Some(oldest) = oldest.map(|(&key, _)| key) {
                names.remove(&oldest);
            }
        }
        let failures = names.entry(key).or_insert(Failures { count: 0, last: now, until: now });
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        failures.until = now + wait_after(failures.count);
    }

    /// Forgets the failures of a name.
    pub(super) fn succeeded(&self, key: NameKey) {
        self.names().remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn wait(lockout: &Lockout, key: NameKey, now: Instant) -> Duration {
        match lockout.check(key, now) {
            Ok(()) => Duration::ZERO,
            Err(Error::Denied(Denied::LoginLocked { retry_after })) => retry_after,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_wait_begins_at_the_fifth_failure_and_doubles_up_to_a_quarter_of_an_hour() {
        let lockout = Lockout::default();
        let key = lockout.key("ada");
        let mut now = Instant::now();
        for expected in [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900] {
            lockout.failed(key, now);
            let expected = Duration::from_secs(expected);
            assert_eq!(wait(&lockout, key, now), expected);
            if !expected.is_zero() {
                let nearly = expected - Duration::from_nanos(1);
                assert_eq!(wait(&lockout, key, now + nearly), Duration::from_nanos(1));
            }
            now += expected;
            assert_eq!(wait(&lockout, key, now), Duration::ZERO);
        }
    }

    #[test]
    fn no_number_of_failures_wraps() {
        assert_eq!(wait_after(u32::MAX), WAIT_MAX);
        for failures in 0..200 {
            assert!(wait_after(failures) <= wait_after(failures + 1));
        }
    }

    #[test]
    fn success_forgets_all_failures_of_that_name_alone() {
        let lockout = Lockout::default();
        let (ada, bob) = (lockout.key("ada"), lockout.key("bob"));
        let now = Instant::now();
        for _ in 0..6 {
            lockout.failed(ada, now);
            lockout.failed(bob, now);
        }
        lockout.succeeded(ada);
        assert_eq!(wait(&lockout, ada, now), Duration::ZERO);
        assert_eq!(wait(&lockout, bob, now), Duration::from_secs(2));
        lockout.failed(ada, now);
        assert_eq!(wait(&lockout, ada, now), Duration::ZERO);
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_leaves_first() {
        let lockout = Lockout::default();
        let start = Instant::now();
        let key = |at: usize| lockout.key(&format!("name {at}"));
        for at in 0..NAMES_MAX {
            for _ in 0..5 {
                lockout.failed(key(at), start + Duration::from_millis(at as u64));
            }
        }
        let now = start + Duration::from_millis(500);
        // The first fails again and is the youngest: the second is the oldest.
        lockout.failed(key(0), start + Duration::from_secs(100));
        lockout.failed(key(NAMES_MAX), start + Duration::from_secs(101));
        assert_eq!(lockout.names().len(), NAMES_MAX);
        assert_ne!(wait(&lockout, key(0), now), Duration::ZERO);
        assert_eq!(wait(&lockout, key(1), now), Duration::ZERO);
        assert_ne!(wait(&lockout, key(2), now), Duration::ZERO);
    }
}
