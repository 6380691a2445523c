//! Threads that begin together.
//!
//! ```text
//! run ── spawns each ──> prepares, Member::begin ─┐
//!   │                                              ├─ all are there: go
//!   └── `meanwhile` ─────────────────────────────┘
//!       a thread that cannot be made, fails or panics before it begins: called off, nobody waits for ever
//! ```
//!
//! A barrier would do if nothing went wrong: those that wait at it wait for ever once one does not come.
//!
//! When the threads begin, the caller may have to wait for a processor, so times are for the threads to take:
//! [`Span`] is one thread's, and [`Span::of_all`] that of the whole.

use crate::Fail;
use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// From when to when a thread worked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

impl Span {
    /// From the first start to the last end. Nothing of nobody.
    pub(crate) fn of_all(spans: impl Iterator<Item = Span> + Clone) -> Duration {
        let start = spans.clone().map(|span| span.start).min();
        let end = spans.map(|span| span.end).max();
        start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
    }
}

/// Why a thread that was ready did not begin: another could not.
#[derive(Debug)]
struct CalledOff;

impl std::fmt::Display for CalledOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another thread could not begin")
    }
}

impl std::error::Error for CalledOff {}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many are not there yet.
    Awaiting(usize),
    Go,
    CalledOff,
}

/// Where the threads meet.
struct Start {
    state: Mutex<State>,
    changed: Condvar,
}

impl Start {
    /// One more is there; waits until all are, or it is called off.
    fn arrive(&self) -> Result<(), CalledOff> {
        // Nothing is done under the lock that could panic.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Awaiting(missing) = *state {
            *state = if missing > 1 { State::Awaiting(missing - 1) } else { State::Go };
            self.changed.notify_all();
        }
        let awaiting = |state: &mut State| matches!(state, State::Awaiting(_));
        let state = self.changed.wait_while(state, awaiting);
        match *state.unwrap_or_else(PoisonError::into_inner) {
            State::CalledOff => Err(CalledOff),
            _ => Ok(()),
        }
    }

    fn call_off(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Awaiting(_)) {
            *state = State::CalledOff;
        }
        self.changed.notify_all();
    }
}

/// A thread of a team. If it ends before it has begun, nobody begins.
pub(crate) struct Member<'a> {
    start: &'a Start,
    has_begun: Cell<bool>,
}

impl Member<'_> {
    /// Waits until all are ready.
    ///
    /// # Errors
    /// If another failed before: then there is nothing to do.
    pub(crate) fn begin(&self) -> Result<(), Fail> {
        self.has_begun.set(true);
        Ok(self.start.arrive()?)
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if !self.has_begun.get() {
            self.start.call_off();
        }
    }
}

/// Runs `work` on `threads` threads, which prepare what they need and then call [`Member::begin`], and `meanwhile` on this
/// one when all begin. Gives what the threads made, in their order.
///
/// # Errors
/// The first error of a thread, that of a thread that cannot be made, and a panic of one.
pub(crate) fn run<T: Send, R>(
    threads: usize,
    work: impl Fn(usize, &Member<'_>) -> Result<T, Fail> + Sync,
    meanwhile: impl FnOnce() -> R,
) -> Result<(Vec<T>, R), Fail> {
    let start = Start { state: Mutex::new(State::Awaiting(threads + 1)), changed: Condvar::new() };
    std::thread::scope(|scope| {
        // Called off when this is left, should anything below fail.
        let here = Member { start: &start, has_begun: Cell::new(false) };
        let mut made = Vec::new();
        let mut missing = None;
        for at in 0..threads {
            let (start, work) = (&start, &work);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                let member = Member { start, has_begun: Cell::new(false) };
                work(at, &member)
            });
            match thread {
                Ok(thread) => made.push(thread),
                Err(error) => {
                    let message = format!("thread {} of {threads} cannot be made", at + 1);
                    missing = Some(format!("{message}: {error}; ask for fewer --threads"));
                    start.call_off();
                    break;
                }
            }
        }
        let seen = here.begin().map(|()| meanwhile());
        let mut results = Vec::with_capacity(made.len());
        let mut failed: Option<Fail> = missing.map(Into::into);
        for thread in made {
            match thread.join() {
                Ok(Ok(result)) => results.push(result),
                Ok(Err(error)) if failed.is_some() || error.is::<CalledOff>() => {}
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some("a thread of the benchmark panicked".into()),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok((results, seen?)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    // Relaxed: that all see all is what beginning together promises.
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn nobody_begins_before_all_are_ready() {
        let ready = AtomicUsize::new(0);
        let (seen, meanwhile) = run(
            5,
            |at, member| {
                ready.fetch_add(1, Relaxed);
                member.begin()?;
                Ok((at, ready.load(Relaxed)))
            },
            || ready.load(Relaxed),
        )
        .expect("all begin");
        assert_eq!(seen, [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5)]);
        assert_eq!(meanwhile, 5);
    }

    #[test]
    fn a_thread_that_fails_or_panics_before_it_begins_calls_the_others_off() {
        let fails = |at: usize, member: &Member<'_>| {
            if at == 1 {
                return Err("no store".into());
            }
            member.begin()
        };
        let error = run(3, fails, || ()).expect_err("one fails");
        assert_eq!(error.to_string(), "no store");
        let panics = |at: usize, member: &Member<'_>| {
            assert_ne!(at, 2, "on purpose");
            member.begin()
        };
        let error = run(3, panics, || ()).expect_err("one panics");
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn an_error_after_the_start_is_that_of_the_team() {
        let work = |at: usize, member: &Member<'_>| {
            member.begin()?;
            if at == 0 { Err("late".into()) } else { Ok(at) }
        };
        assert_eq!(run(2, work, || ()).expect_err("one fails").to_string(), "late");
    }

    #[test]
    fn the_span_of_all_is_from_the_first_start_to_the_last_end() {
        let at = Instant::now();
        let span = |from, to| Span {
            start: at + Duration::from_millis(from),
            end: at + Duration::from_millis(to),
        };
        let all = [span(5, 20), span(2, 9), span(7, 30)];
        assert_eq!(Span::of_all(all.into_iter()), Duration::from_millis(28));
        assert_eq!(Span::of_all(std::iter::empty()), Duration::ZERO);
    }
}
