//! What shipped code does to memory, recorded on threads of its own: one a core, all alive until the last one
//! has been recorded, so that each has its own slots wherever the library keeps slots for threads.
//!
//! Threads run one after the other. A trace is therefore what an operation does that meets nobody.

use super::replay::{Step, Trace};
use crate::Fail;
use std::sync::{Mutex, mpsc};

/// Operations of each thread that are not recorded: what is made when a thread first comes.
const FIRST_OPS: usize = 8;

/// What an operation works on: the number of a page or a record.
pub(crate) type Number = u64;

/// Fails in a build that records nothing.
pub(crate) fn check_built() -> Result<(), Fail> {
    if cfg!(feature = "trace") {
        return Ok(());
    }
    Err("this build records no accesses; this one does: \
         cargo run --release -p latchkv-bench --features trace -- coherence"
        .into())
}

/// Does `work`, and gives what the calling thread did to atomics.
#[cfg(feature = "trace")]
fn steps_of<R>(work: impl FnOnce() -> R) -> Result<(R, Vec<Step>), Fail> {
    use latchkv_latch::primitives::trace::{self, Access};
    let (result, steps) = trace::record(work);
    let steps = steps.into_iter().map(|step| Step {
        address: step.address,
        writes: step.access != Access::Read,
        modifies: step.access == Access::ReadModifyWrite,
    });
    Ok((result, steps.collect()))
}

/// See [`check_built`].
#[cfg(not(feature = "trace"))]
fn steps_of<R>(_work: impl FnOnce() -> R) -> Result<(R, Vec<Step>), Fail> {
    check_built()?;
    Err("nothing is recorded".into())
}

/// What one thread does, on `numbers` in this order.
fn trace(numbers: &[Number], work: impl Fn(Number) -> Result<(), Fail>) -> Result<Trace, Fail> {
    numbers.iter().take(FIRST_OPS).try_for_each(|&number| work(number))?;
    let mut trace = Trace::default();
    for &number in numbers {
        let (result, steps) = steps_of(|| work(number))?;
        result?;
        trace.push(steps);
    }
    Ok(trace)
}

/// The traces of as many cores as there are lists of numbers.
pub(crate) fn traces(
    numbers: &[Vec<Number>],
    work: impl Fn(Number) -> Result<(), Fail> + Sync,
) -> Result<Vec<Trace>, Fail> {
    let stay = Mutex::new(());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        // Let go at the end of this closure, however that comes: then the threads end.
        let _stay = stay.lock();
        let mut traces = Vec::with_capacity(numbers.len());
        for numbers in numbers {
            let (sender, stay, work) = (sender.clone(), &stay, &work);
            let thread = std::thread::Builder::new();
            thread.spawn_scoped(scope, move || {
                // Nobody listens if another thread failed.
                let _ = sender.send(trace(numbers, work));
                drop(stay.lock());
            })?;
            traces.push(receiver.recv()??);
        }
        Ok(traces)
    })
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use super::*;
    use latchkv_latch::primitives::AtomicU64;
    use latchkv_latch::primitives::Ordering::Relaxed;
    use latchkv_latch::{LatchPlacement, PageHash, thread_index};

    #[test]
    fn every_core_is_recorded_on_a_thread_of_its_own() {
        let slots: Vec<AtomicU64> = (0..64 * 8).map(|_| AtomicU64::new(0)).collect();
        let numbers = vec![vec![1, 2]; 3];
        let traces = traces(&numbers, |number| {
            slots[thread_index() % 64 * 8].store(number, Relaxed);
            Ok(())
        })
        .expect("traces");
        assert_eq!(traces.len(), 3);
        assert!(traces[0] != traces[1] && traces[1] != traces[2] && traces[0] != traces[2]);
    }

    #[test]
    fn only_a_lookup_that_takes_its_latch_shared_modifies_anything() {
        let numbers = vec![(1..50).collect::<Vec<Number>>(); 2];
        let hash = PageHash::<latchkv_latch::Line64>::new(64, LatchPlacement::PerCell);
        for page in 1..50 {
            hash.insert(page, page as u32).expect("absent");
        }
        let found = |frame: Option<u32>| frame.map(|_| ()).ok_or_else(|| "absent".into());
        let optimistic = traces(&numbers, |page| found(hash.lookup(page))).expect("traces");
        assert_eq!(optimistic[1].modifies_an_op(), 0.0);
        let shared = traces(&numbers, |page| found(hash.lookup_shared(page))).expect("traces");
        assert_eq!(shared[1].modifies_an_op(), 2.0);
    }

    #[test]
    fn an_operation_that_fails_ends_the_recording_with_its_error() {
        let fails = |number| if number == 3 { Err("three".into()) } else { Ok(()) };
        let error = traces(&[vec![1], vec![3], vec![1]], fails).expect_err("a failure");
        assert_eq!(error.to_string(), "three");
    }
}
