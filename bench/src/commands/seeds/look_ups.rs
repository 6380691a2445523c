//! Look-ups in the page hash by themselves, of one page after the other at random, and the latches that they take.
//!
//! | measured | work |
//! |---|---|
//! | a look-up | `PageHash::lookup` of a page that is there |
//! | its latch | S of the latch that the look-up would take, of as many in an array, taken and given back |
//! | crowded | look-ups that met another at their latch, which the hash counts (feature `measure`) |
//!
//! A latch in a cell is not taken by a look-up that finds its page, so it has no row of its own. Threads do nothing but
//! look up here, so they meet each other as often as they can: more often than in transactions.
//!
//! Tested below, and through `page_hash`.

use super::page_hash::{PLACES, Place};
use super::{GAIN_COLUMNS, Setting, gain, rate};
use crate::Fail;
use crate::report::{Cell, Report, Table};
use crate::rounds::{self, Series, Timing, Variant};
use crossbeam_utils::CachePadded;
use latchkv_latch::{Latch, Line64, PageHash};
use std::hint::black_box;

/// Look-ups of a round over its operations: one takes some nanoseconds, and starting threads takes long.
const AN_OPERATION: usize = 50;
/// Look-ups of a round, at most: as many fit caches of the system.
const LOOK_UPS_MAX: usize = 1 << 20;

/// What look-ups and latches cost alone, for each place, on so many threads.
pub(super) struct Alone {
    look_ups: Series,
    /// Of the places with latches apart, in their order.
    latches: Series,
    /// Of a thousand look-ups.
    crowded: Vec<Option<f64>>,
}

impl Alone {
    /// Measures them, over as many pages.
    pub(super) fn measure(
        setting: &Setting<'_>,
        pages: u32,
        threads: usize,
    ) -> Result<Alone, Fail> {
        let hashes = PLACES.map(|place| place.hash(pages as usize));
        for hash in &hashes {
            fill(hash, pages)?;
        }
        let ops = (setting.timing.ops * AN_OPERATION).min(LOOK_UPS_MAX);
        let timing = Timing { ops, ..setting.timing };
        let wanted = |round| {
            let mut random = fastrand::Rng::with_seed(round);
            (0..ops).map(|_| random.u64(1..=u64::from(pages))).collect()
        };
        let look_up = |(place, hash): (Place, _)| {
            Variant::new(place.name(), move |wanted: &[u64]| Ok(sum_of_frames(hash, wanted)))
        };
        let variants: Vec<_> = PLACES.into_iter().zip(&hashes).map(look_up).collect();
        let look_ups = rounds::run(timing, threads, &variants, wanted)?;
        drop(variants);
        // The round that does not count is one of them.
        let all = (ops * (timing.rounds + 1)) as u64;
        let crowded = hashes.iter().map(|hash| of_thousand(crowded(hash), all)).collect();

        let arrays: Vec<(Place, Box<[CachePadded<Latch>]>)> = PLACES
            .into_iter()
            .filter_map(|place| {
                let latches = (0..place.apart()?).map(|_| CachePadded::new(Latch::new()));
                Some((place, latches.collect()))
            })
            .collect();
        // All hashes have the same cells.
        let hash = &hashes[0];
        let variants: Vec<_> = arrays
            .iter()
            .map(|(place, latches)| {
                Variant::new(place.name(), move |wanted: &[u64]| {
                    Ok(sum_of_pages(hash, latches, wanted))
                })
            })
            .collect();
        let latches = rounds::run(timing, threads, &variants, wanted)?;
        drop(variants);
        Ok(Alone { look_ups, latches, crowded })
    }

    /// Nanoseconds of a look-up, of the whole if there are several threads.
    pub(super) fn look_up_ns(&self, which: usize) -> f64 {
        self.look_ups.median(which)
    }

    /// Nanoseconds of its latch; `None` if it takes none.
    pub(super) fn latch_ns(&self, place: Place) -> Option<f64> {
        let which = self.latches.names.iter().position(|name| name == place.name())?;
        Some(self.latches.median(which))
    }

    /// Prints it.
    pub(super) fn report(
        &self,
        report: &mut Report,
        pages: u32,
        threads: usize,
    ) -> Result<(), Fail> {
        let mut columns = vec!["latches", "look-ups/s"];
        columns.extend(GAIN_COLUMNS);
        columns.extend(["a look-up [ns]", "its latch [ns]", "crowded of 1000"]);
        let title = format!("page-hash: look-ups alone, {pages} pages, {threads} thread(s)");
        let mut table = Table::new(title, &columns).keyed_by(1).note(
            "crowded: met another look-up at the latch, by count; gain: of a latch in each cell",
        );
        for (which, place) in PLACES.into_iter().enumerate() {
            let mut row: Vec<Cell> = vec![place.name().into(), rate(&self.look_ups, which)];
            row.extend(if place == Place::PerCell {
                [const { Cell::None }; GAIN_COLUMNS.len()]
            } else {
                gain(&self.look_ups, which, 0)
            });
            row.extend([
                self.look_up_ns(which).into(),
                self.latch_ns(place).into(),
                self.crowded[which].into(),
            ]);
            table.push(row);
        }
        report.table(&table)
    }
}

/// Enters pages 1 to `pages`.
fn fill(hash: &PageHash<Line64>, pages: u32) -> Result<(), Fail> {
    for frame in 0..pages {
        hash.insert(u64::from(frame) + 1, frame).map_err(|_| "a page was entered twice")?;
    }
    Ok(())
}

fn sum_of_frames(hash: &PageHash<Line64>, wanted: &[u64]) -> u64 {
    let found = wanted.iter().map(|&page| hash.lookup(page).map_or(0, u64::from));
    found.fold(0, u64::wrapping_add)
}

/// Takes the latch of each page, and gives it back.
fn sum_of_pages(hash: &PageHash<Line64>, latches: &[CachePadded<Latch>], wanted: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for &page in wanted {
        let _shared = latches[hash.home_of(page) % latches.len()].shared();
        sum = sum.wrapping_add(black_box(page));
    }
    sum
}

/// Look-ups of a hash that met another at their latch; `None` in a build that does not count them.
fn crowded(hash: &PageHash<Line64>) -> Option<u64> {
    #[cfg(feature = "measure")]
    return Some(hash.crowded());
    #[cfg(not(feature = "measure"))]
    {
        let _ = hash;
        None
    }
}

/// `count` of `all`, for a thousand.
pub(super) fn of_thousand(count: Option<u64>, all: u64) -> Option<f64> {
    count.map(|count| 1000.0 * count as f64 / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Clock;

    #[test]
    fn every_place_has_a_cost_and_every_array_of_latches_one_too() {
        let timing = Timing { rounds: 2, ops: 4, clock: Clock::Cpu };
        let dir = tempfile::tempdir().expect("a directory");
        let setting = Setting {
            threads: 2,
            cache_mib: 64,
            timing,
            rows: 1,
            path: dir.path(),
            instructions: false,
        };
        for threads in [1, 2] {
            let alone = Alone::measure(&setting, 100, threads).expect("measures");
            for (which, place) in PLACES.into_iter().enumerate() {
                assert!(alone.look_up_ns(which) > 0.0);
                assert_eq!(alone.latch_ns(place).is_some(), place.apart().is_some(), "{place:?}");
                assert_eq!(alone.crowded[which].is_some(), cfg!(feature = "measure"));
            }
            if threads == 1 {
                assert!(alone.crowded.iter().flatten().all(|&crowded| crowded == 0.0));
            }
        }
    }

    #[test]
    fn a_thousand_is_what_counts_are_of() {
        assert_eq!(of_thousand(Some(3), 2000), Some(1.5));
        assert_eq!(of_thousand(Some(0), 0), Some(0.0));
        assert_eq!(of_thousand(None, 7), None);
    }

    #[test]
    fn a_latch_is_free_again_when_it_has_been_counted() {
        let hash = Place::Apart16.hash(64);
        let latches: Vec<_> = (0..16).map(|_| CachePadded::new(Latch::new())).collect();
        assert_eq!(sum_of_pages(&hash, &latches, &[1, 2, 3]), 6);
        assert!(latches.iter().all(|latch| latch.try_exclusive().is_some()));
    }
}
