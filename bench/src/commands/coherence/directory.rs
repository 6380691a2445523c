//! Where the copies of each line are, and what it takes to read or write one: a directory protocol.
//!
//! ```text
//!                 held by     read by a holder  read by another core      written by a holder    by another core
//!   absent        nobody                        from memory -> owned                             from memory -> owned
//!   owned         one core    hit               from its cache -> shared  hit                    taken -> owned
//!   shared        some cores  hit               from the nearest cache    taken -> owned, or hit taken -> owned
//!                                                                         if no other holds it
//! ```
//!
//! *Owned* is E and M of MESI: what tells them apart, the write-back, is not counted here. A read-modify-write is
//! a write. *Taken* means that copies in other caches go, whether or not the data move too.
//!
//! Caches are private to a core, fully associative, and drop the line that was used least recently; the
//! directory knows at once. A cache without a limit keeps every line until somebody writes it.
//!
//! * \[D1] A line has at most one owner, and then no other holder.
//! * \[D2] A core holds a line exactly if the line is in its cache.

use lru::LruCache;
use std::num::NonZeroUsize;

/// Most cores of a machine.
pub(crate) const CORES_MAX: usize = 256;

/// A core, from 0.
pub(crate) type Core = u16;

/// What the machine is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Cores, at most [`CORES_MAX`].
    pub(crate) cores: usize,
    /// Cores of a socket: cores `0..n` are in the first one.
    pub(crate) socket_cores: usize,
    /// Lines that a core's cache holds; `None` for no limit.
    pub(crate) cache_lines: Option<NonZeroUsize>,
}

/// What an access took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Took {
    /// Nothing.
    Hit,
    /// The line came from memory.
    Memory,
    /// A read got the line from another core's cache, in another socket if `far`.
    Read { far: bool },
    /// A write took the line from others, one of them in another socket if `far`.
    Taken { far: bool },
}

/// A set of cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cores([u64; CORES_MAX / 64]);

impl Cores {
    fn only(core: Core) -> Cores {
        let mut cores = Cores::default();
        cores.insert(core);
        cores
    }

    fn insert(&mut self, core: Core) {
        self.0[usize::from(core) / 64] |= 1 << (core % 64);
    }

    fn remove(&mut self, core: Core) {
        self.0[usize::from(core) / 64] &= !(1 << (core % 64));
    }

    fn contains(&self, core: Core) -> bool {
        self.0[usize::from(core) / 64] >> (core % 64) & 1 == 1
    }

    fn is_empty(&self) -> bool {
        self.0 == [0; CORES_MAX / 64]
    }

    fn iter(self) -> impl Iterator<Item = Core> {
        self.0.into_iter().zip(0..).flat_map(|(mut word, at): (u64, Core)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as Core)?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

/// What the directory knows of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    holders: Cores,
    /// The one holder may write.
    owned: bool,
}

/// Cores, their caches and the directory.
#[derive(Debug)]
pub(crate) struct Machine {
    shape: Shape,
    lines: Vec<Line>,
    /// \[D2]; empty if there is no limit.
    caches: Vec<LruCache<u32, ()>>,
}

impl Machine {
    /// Caches are empty. Lines are numbered from 0 to `lines`.
    pub(crate) fn new(shape: Shape, lines: usize) -> Machine {
        let cache = |lines| (0..shape.cores).map(|_| LruCache::new(lines)).collect();
        Machine {
            shape,
            lines: vec![Line::default(); lines],
            caches: shape.cache_lines.map_or_else(Vec::new, cache),
        }
    }

    /// Core `core` reads the line, or writes it if `writes`.
    pub(crate) fn access(&mut self, core: Core, line: u32, writes: bool) -> Took {
        let took = self.move_line(core, line, writes);
        self.keep(core, line);
        took
    }

    fn move_line(&mut self, core: Core, at: u32, writes: bool) -> Took {
        let line = self.lines[at as usize];
        let held = line.holders.contains(core);
        if held && (line.owned || !writes) {
            return Took::Hit;
        }
        let mut others = line.holders;
        others.remove(core);
        let new = if writes || line.holders.is_empty() {
            Line { holders: Cores::only(core), owned: true }
        } else {
            let mut holders = line.holders;
            holders.insert(core);
            Line { holders, owned: false }
        };
        let took = match (others.is_empty(), writes) {
            (true, _) if held => Took::Hit,
            (true, _) => Took::Memory,
            (false, false) => {
                Took::Read { far: !others.iter().any(|other| self.is_near(core, other)) }
            }
            (false, true) => {
                Took::Taken { far: others.iter().any(|other| !self.is_near(core, other)) }
            }
        };
        self.lines[at as usize] = new;
        if writes && !self.caches.is_empty() {
            for other in others.iter() {
                self.caches[usize::from(other)].pop(&at);
            }
        }
        took
    }

    fn is_near(&self, one: Core, other: Core) -> bool {
        usize::from(one) / self.shape.socket_cores == usize::from(other) / self.shape.socket_cores
    }

    /// Makes `line` the one that `core` used last; what its cache has no room for goes.
    fn keep(&mut self, core: Core, line: u32) {
        let Some(cache) = self.caches.get_mut(usize::from(core)) else { return };
        let Some((dropped, ())) = cache.push(line, ()) else { return };
        if dropped != line {
            let dropped = &mut self.lines[dropped as usize];
            dropped.holders.remove(core);
            dropped.owned = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize, cache_lines: usize) -> Machine {
        let shape = Shape { cores, socket_cores: 2, cache_lines: NonZeroUsize::new(cache_lines) };
        Machine::new(shape, 8)
    }

    const NEAR: Took = Took::Taken { far: false };
    const FAR: Took = Took::Taken { far: true };

    #[test]
    fn a_line_read_by_all_cores_moves_once_to_each_and_then_no_more() {
        for cache_lines in [0, 4] {
            let mut machine = machine(4, cache_lines);
            let first: Vec<Took> = (0..4).map(|core| machine.access(core, 0, false)).collect();
            let (near, far) = (Took::Read { far: false }, Took::Read { far: true });
            assert_eq!(first, [Took::Memory, near, far, near]);
            for core in (0..4).chain(0..4) {
                assert_eq!(machine.access(core, 0, false), Took::Hit);
            }
        }
    }

    #[test]
    fn a_line_written_by_two_cores_in_turn_moves_each_time() {
        let mut machine = machine(4, 0);
        assert_eq!(machine.access(0, 0, true), Took::Memory);
        for _ in 0..3 {
            assert_eq!(machine.access(1, 0, true), NEAR);
            assert_eq!(machine.access(0, 0, true), NEAR);
        }
        assert_eq!(machine.access(3, 0, true), FAR);
        assert_eq!(machine.access(3, 0, true), Took::Hit);
    }

    #[test]
    fn a_line_from_memory_can_be_written_without_asking_again() {
        let mut machine = machine(2, 0);
        assert_eq!(machine.access(0, 0, false), Took::Memory);
        assert_eq!(machine.access(0, 0, true), Took::Hit);
    }

    #[test]
    fn a_write_ends_the_copies_of_readers() {
        for cache_lines in [0, 4] {
            let mut machine = machine(4, cache_lines);
            for core in 0..3 {
                let _ = machine.access(core, 0, false);
            }
            assert_eq!(machine.access(0, 0, true), FAR, "one of the copies is in the other socket");
            assert_eq!(machine.access(0, 0, true), Took::Hit);
            assert_eq!(machine.access(1, 0, false), Took::Read { far: false });
            assert_eq!(machine.access(2, 0, false), Took::Read { far: true });
            assert_eq!(machine.access(0, 0, false), Took::Hit, "it kept a copy to read");
        }
    }

    #[test]
    fn a_full_cache_drops_the_line_used_least_recently() {
        let mut machine = machine(1, 2);
        for line in [0, 1] {
            assert_eq!(machine.access(0, line, false), Took::Memory);
        }
        assert_eq!(machine.access(0, 0, false), Took::Hit);
        assert_eq!(machine.access(0, 2, false), Took::Memory);
        assert_eq!(machine.access(0, 0, false), Took::Hit);
        assert_eq!(machine.access(0, 1, false), Took::Memory);
    }

    #[test]
    fn what_a_cache_dropped_is_not_taken_from_it() {
        let mut machine = machine(2, 1);
        assert_eq!(machine.access(0, 0, true), Took::Memory);
        assert_eq!(machine.access(0, 1, true), Took::Memory);
        assert_eq!(machine.access(1, 0, true), Took::Memory);
    }

    #[test]
    fn the_last_reader_left_may_write_without_taking_anything() {
        let mut machine = machine(2, 1);
        let _ = machine.access(0, 0, false);
        assert_eq!(machine.access(1, 0, false), Took::Read { far: false });
        assert_eq!(machine.access(0, 1, false), Took::Memory);
        assert_eq!(machine.access(1, 0, true), Took::Hit);
    }

    #[test]
    fn sets_of_cores_give_what_was_put_in() {
        let mut cores = Cores::default();
        for core in [255, 0, 63, 64] {
            cores.insert(core);
        }
        cores.remove(63);
        assert_eq!(cores.iter().collect::<Vec<_>>(), [0, 64, 255]);
        assert!(cores.contains(255) && !cores.contains(63) && !cores.is_empty());
    }
}
