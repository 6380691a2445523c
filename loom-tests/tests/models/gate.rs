//! Writers inside the gate against a checkpoint that closes it. The data is a loom `UnsafeCell`: two accesses
//! that are not ordered are an error.

use crate::setup::beside;
use latchkv_latch::Gate;
use latchkv_latch::primitives::Mutant;
use latchkv_loom_tests::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

struct Guarded {
    gate: Gate,
    /// One for each thread that enters; the closer reads and writes both.
    data: [UnsafeCell<u32>; 2],
}

// SAFETY: the data is reached inside the gate or with it closed; that this suffices is what the models check.
unsafe impl Sync for Guarded {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarded {}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded { gate: Gate::new(), data: std::array::from_fn(|_| UnsafeCell::new(0)) })
    }

    fn bump(&self, index: usize) {
        // SAFETY: called inside the gate by the thread `index`, or with the gate closed; loom checks that
        // they exclude each other.
        self.data[index].with_mut(|data| unsafe { *data += 1 });
    }

    fn write(&self, index: usize) {
        let inside = self.gate.enter_as(index);
        self.bump(index);
        drop(inside);
    }

    fn checkpoint(&self) {
        let closed = self.gate.close();
        self.bump(0);
        self.bump(1);
        drop(closed);
    }
}

/// Would falsify: nobody is inside a closed gate, and each side sees what the other did.
#[test]
fn nobody_is_inside_a_closed_gate() {
    let mutants = [
        Mutant::EnterWithoutFence,
        Mutant::CloseWithoutFence,
        Mutant::EnterIgnoresClosed,
        Mutant::LeaveRelaxed,
        Mutant::OpenRelaxed,
    ];
    check(3, &mutants, || {
        let guarded = Guarded::new();
        let writer = beside(&guarded, move |guarded| {
            guarded.write(0);
            guarded.write(0);
        });
        guarded.checkpoint();
        writer.join().unwrap();
    });
}

/// Would falsify: writers that found the gate closed are woken when it opens.
#[test]
fn opening_wakes_every_writer_that_waits() {
    check(2, &[Mutant::GateParkWithoutRecheck, Mutant::OpenForgetsWake], || {
        let guarded = Guarded::new();
        let writers: Vec<_> =
            (0..2).map(|index| beside(&guarded, move |guarded| guarded.write(index))).collect();
        guarded.checkpoint();
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

/// Would falsify: a thread inside enters again though a closer waits for it.
#[test]
fn entering_again_does_not_wait_for_a_closer() {
    check(3, &[], || {
        let guarded = Guarded::new();
        let writer = beside(&guarded, move |guarded| {
            let outer = guarded.gate.enter_as(0);
            let inner = guarded.gate.enter_as(0);
            guarded.bump(0);
            drop(inner);
            guarded.bump(0);
            drop(outer);
        });
        guarded.checkpoint();
        writer.join().unwrap();
    });
}

/// Would falsify: closers exclude each other, and the one that waits is woken.
#[test]
fn two_closers_take_turns() {
    check(
        2,
        &[Mutant::OpenRelaxed, Mutant::OpenForgetsWake, Mutant::GateParkWithoutRecheck],
        || {
            let guarded = Guarded::new();
            let other = beside(&guarded, move |guarded| guarded.checkpoint());
            guarded.checkpoint();
            other.join().unwrap();
        },
    );
}
