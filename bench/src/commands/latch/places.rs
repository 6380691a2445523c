//! What threads contend for: many places with a lock each, and the operations on them.
//!
//! ```text
//! place   lock | first | second          in 128 bytes of its own
//!
//! write   first + 1, the section's work, second = first
//! read    first, the section's work, second: equal, or somebody wrote meanwhile
//! ```
//!
//! So every run checks what it measures: a reader that sees the words differ, or a count of writes that does not
//! come out in the end, shows a lock that does not exclude. The words are atomics with Relaxed accesses, plain
//! loads and stores for the processor, because optimistic readers may race with a writer.

use super::locks::{ExclusiveReads, Lock, Optimistic, SharedReads, Spin, Unlocked, Upgrading};
use super::section::Section;
use crate::Fail;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A place to read or to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Op {
    /// Below the number of places.
    pub(super) place: u32,
    pub(super) write: bool,
}

/// Something that threads contend for.
pub(super) trait Contender: Sync {
    fn name(&self) -> String;

    /// Called before each slice, with nobody at work.
    fn prepare(&self) {}

    /// Does the operations in turn, and gives how many saw nothing that they should not.
    fn batch(&self, ops: &[Op], section: Section) -> u64;

    /// Whether all is in order after `writes` in all, with nobody at work.
    fn check(&self, writes: u64) -> Result<(), Fail>;
}

/// A lock under measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Kind {
    /// The latch, reads optimistic
    Optimistic,
    /// The latch, reads under S
    Shared,
    /// The latch, reads under X
    Exclusive,
    /// The latch, writes by upgrade of an optimistic read
    Upgrade,
    /// `parking_lot::RwLock`
    ParkingLot,
    /// `std::sync::RwLock`
    Std,
    /// `crossbeam_utils::sync::ShardedLock`
    Sharded,
    /// A plain spinlock
    Spin,
}

impl Kind {
    /// All, the one that ships first: the others are compared with it.
    pub(super) const ALL: [Kind; 8] = [
        Kind::Optimistic,
        Kind::Shared,
        Kind::Exclusive,
        Kind::Upgrade,
        Kind::ParkingLot,
        Kind::Std,
        Kind::Sharded,
        Kind::Spin,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Optimistic => "latch, optimistic",
            Kind::Shared => "latch, shared",
            Kind::Exclusive => "latch, exclusive",
            Kind::Upgrade => "latch, upgrade",
            Kind::ParkingLot => "parking_lot RwLock",
            Kind::Std => "std RwLock",
            Kind::Sharded => "crossbeam ShardedLock",
            Kind::Spin => "spinlock",
        }
    }

    /// `places` places with a lock of this kind each.
    pub(super) fn places(self, places: u32) -> Box<dyn Contender> {
        match self {
            Kind::Optimistic => Places::<Optimistic>::boxed(self.name(), places),
            Kind::Shared => Places::<SharedReads>::boxed(self.name(), places),
            Kind::Exclusive => Places::<ExclusiveReads>::boxed(self.name(), places),
            Kind::Upgrade => Places::<Upgrading>::boxed(self.name(), places),
            Kind::ParkingLot => Places::<parking_lot::RwLock<()>>::boxed(self.name(), places),
            Kind::Std => Places::<std::sync::RwLock<()>>::boxed(self.name(), places),
            Kind::Sharded => {
                Places::<crossbeam_utils::sync::ShardedLock<()>>::boxed(self.name(), places)
            }
            Kind::Spin => Places::<Spin>::boxed(self.name(), places),
        }
    }
}

/// `places` places without a lock, for one thread.
pub(super) fn unlocked(places: u32) -> Box<dyn Contender> {
    Places::<Unlocked>::boxed("no lock", places)
}

/// A lock and what it protects. 128 bytes, as many processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Place<L> {
    lock: L,
    first: AtomicU64,
    second: AtomicU64,
}

struct Places<L> {
    name: &'static str,
    places: Box<[Place<L>]>,
}

impl<L: Lock + 'static> Places<L> {
    fn boxed(name: &'static str, places: u32) -> Box<dyn Contender> {
        let places = (0..places).map(|_| Place::default()).collect();
        Box::new(Places::<L> { name, places })
    }
}

impl<L: Lock> Place<L> {
    #[inline]
    fn read(&self, section: Section) -> bool {
        self.lock.read(|| {
            let first = self.first.load(Relaxed);
            section.work();
            first == self.second.load(Relaxed)
        })
    }

    #[inline]
    fn write(&self, section: Section) -> bool {
        self.lock.write(|| {
            let first = self.first.load(Relaxed);
            let undisturbed = first == self.second.load(Relaxed);
            self.first.store(first + 1, Relaxed);
            section.work();
            self.second.store(first + 1, Relaxed);
            undisturbed
        })
    }
}

impl<L: Lock> Contender for Places<L> {
    fn name(&self) -> String {
        self.name.into()
    }

    fn batch(&self, ops: &[Op], section: Section) -> u64 {
        let mut undisturbed = 0;
        for op in ops {
            let place = &self.places[op.place as usize];
            let ok = if op.write { place.write(section) } else { place.read(section) };
            undisturbed += u64::from(ok);
        }
        undisturbed
    }

    fn check(&self, writes: u64) -> Result<(), Fail> {
        let counted: u64 = self.places.iter().map(|place| place.first.load(Relaxed)).sum();
        if counted == writes {
            return Ok(());
        }
        Err(format!("{}: {writes} writes were done, and {counted} counted", self.name).into())
    }
}

/// Where operations go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Spread {
    /// All to one place
    Hot,
    /// To 1024 places by Zipf's law, exponent 0.99: about one in eight to the first
    Zipf,
}

impl Spread {
    pub(super) fn places(self) -> u32 {
        match self {
            Spread::Hot => 1,
            Spread::Zipf => 1024,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Spread::Hot => "one place",
            Spread::Zipf => "Zipf over 1024 places",
        }
    }

    /// `count` operations, of which `readers` in a hundred read, drawn by `random`.
    pub(super) fn draw(self, readers: u32, count: usize, random: &mut fastrand::Rng) -> Vec<Op> {
        let mut below = 0.0;
        let weights: Vec<f64> = (1..=self.places())
            .map(|rank| {
                below += f64::from(rank).powf(-0.99);
                below
            })
            .collect();
        (0..count)
            .map(|_| {
                let drawn = random.f64() * below;
                let rank = weights.partition_point(|&weight| weight <= drawn);
                let rank = u32::try_from(rank).unwrap_or(0).min(self.places() - 1);
                // An odd factor scatters neighbours in rank over the places, whose number is a power of two.
                let place = rank.wrapping_mul(0x9e37_79b1) & (self.places() - 1);
                Op { place, write: random.u32(0..100) >= readers }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, half of whose operations write.
    fn contend(contender: &dyn Contender, spread: Spread) -> (u64, u64) {
        let section = Section::EMPTY;
        let tables: Vec<Vec<Op>> =
            (0..2).map(|at| spread.draw(50, 20_000, &mut fastrand::Rng::with_seed(at))).collect();
        let writes = tables.iter().flatten().filter(|op| op.write).count() as u64;
        let undisturbed = std::thread::scope(|scope| {
            let threads: Vec<_> = tables
                .iter()
                .map(|ops| scope.spawn(move || contender.batch(ops, section)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
        });
        (undisturbed, writes)
    }

    #[test]
    fn every_contender_excludes_two_threads() {
        for kind in Kind::ALL {
            for spread in [Spread::Hot, Spread::Zipf] {
                let contender = kind.places(spread.places());
                let (undisturbed, writes) = contend(&*contender, spread);
                assert_eq!(undisturbed, 40_000, "{}: somebody saw half a write", kind.name());
                contender.check(writes).expect("every write counted");
                assert!(contender.check(writes + 1).is_err());
            }
        }
    }

    #[test]
    fn zipf_prefers_few_places_and_reaches_many() {
        let ops = Spread::Zipf.draw(90, 50_000, &mut fastrand::Rng::with_seed(1));
        let mut counts = vec![0_u32; 1024];
        ops.iter().for_each(|op| counts[op.place as usize] += 1);
        counts.sort_unstable();
        assert!((5000..9000).contains(&counts[1023]), "{}", counts[1023]);
        assert!(counts.iter().filter(|&&count| count > 0).count() > 900);
        let writes = ops.iter().filter(|op| op.write).count();
        assert!((4500..5500).contains(&writes), "{writes}");
    }

    #[test]
    fn a_hot_place_is_the_only_one_and_no_reader_writes() {
        let ops = Spread::Hot.draw(100, 1000, &mut fastrand::Rng::with_seed(1));
        assert!(ops.iter().all(|op| *op == Op { place: 0, write: false }));
    }
}
