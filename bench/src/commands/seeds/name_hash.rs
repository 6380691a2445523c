//! Names hashed in each use, or once: reads of a session by the name of a tree.
//!
//! After MDEV-5675: MariaDB hashed the name of a table four times in a query, byte by byte with the state in memory. Since
//! then it keeps the hash with the name, and the state in registers.
//!
//! | way | a query |
//! |---|---|
//! | `four` | hashes the name four times, byte by byte, state in memory: as before that change |
//! | `one` | once, byte by byte, state in registers: as after it |
//! | `word` | once, eight bytes at a time, by the engine's hash (feature `measure`) |
//! | `text` | as `word`, and checks and splits the name: what the engine does with a string |
//! | `ready` | never: a [`Name`], hashed when it was made |
//!
//! A query is a read by name. For the first three, the name is a [`Name`] that computes a hash whenever it is asked for,
//! beside the ready one by which the tree is then found; so they differ from `ready` by hashing alone. The hash of the
//! first two is MariaDB's `my_hash_sort_bin`, written anew.
//!
//! Tested below: the two forms of the old hash agree.

use super::instructions::{self, OPERATIONS, counted_by_callgrind};
use super::{Experiment, GAIN_COLUMNS, Setting, counted_options, gain, gain_percent, rate};
use crate::Fail;
use crate::data::{Data, Key};
use crate::engines::Touch;
use crate::engines::api::{Access, Api, Store};
use crate::report::{Cell, Report, Table};
use crate::rounds::{self, Variant};
use latchkv::{AsName, Name, NameRef, Session};
use std::cell;
use std::hint::black_box;
use std::path::Path;

/// How a name is hashed.
#[derive(Clone, Copy, Debug)]
enum Hashing {
    /// Never
    Ready,
    /// Once a query, a word at a time, with checks
    Text,
    /// Once a query, byte by byte
    One,
    /// Four times a query, byte by byte, state in memory
    Four,
    /// Once a query, a word at a time
    #[cfg(feature = "measure")]
    Word,
}

const HASHINGS: &[Hashing] = &[
    Hashing::Ready,
    Hashing::Text,
    Hashing::One,
    Hashing::Four,
    #[cfg(feature = "measure")]
    Hashing::Word,
];
/// Places in it.
const READY: usize = 0;
const TEXT: usize = 1;
const ONE: usize = 2;
const FOUR: usize = 3;
#[cfg(feature = "measure")]
const WORD: usize = 4;

/// Names of alike length are usual: a schema and a table.
const NAMESPACE: &str = "sbtest";
const TREE: &str = "sbtest1";
const NAME: &str = "sbtest/sbtest1";

impl Hashing {
    /// Reads by name. Gives a sum over the values.
    fn queries(self, session: &Session, keys: &[Key]) -> Result<u64, Fail> {
        match self {
            Hashing::Ready => queries(session, &Name::new(NAME)?, keys),
            Hashing::Text => queries(session, black_box(NAME), keys),
            Hashing::One => {
                let bytes = bytes(NAME);
                let hash = || in_registers(black_box(&bytes));
                queries(session, &Rehashed::new(1, hash)?, keys)
            }
            Hashing::Four => {
                let bytes = bytes(NAME);
                let hash = || in_memory(black_box(&bytes));
                queries(session, &Rehashed::new(4, hash)?, keys)
            }
            #[cfg(feature = "measure")]
            Hashing::Word => {
                let hash = || in_words(black_box(NAME.as_bytes()));
                queries(session, &Rehashed::new(1, hash)?, keys)
            }
        }
    }
}

fn queries(session: &Session, name: &(impl AsName + ?Sized), keys: &[Key]) -> Result<u64, Fail> {
    let mut sum = 0_u64;
    for key in keys {
        let value = session.get_with(name, key, |value| Touch::Ends.sum(value))?;
        sum = sum.wrapping_add(value.ok_or("a record is absent")?);
    }
    Ok(sum)
}

/// A name of which the compiler has to believe that anything may change it.
type Bytes = [cell::Cell<u8>];

fn bytes(name: &str) -> Vec<cell::Cell<u8>> {
    name.bytes().map(cell::Cell::new).collect()
}

/// A name that computes a hash whenever it is asked for.
struct Rehashed<H> {
    ready: Name,
    times: usize,
    hash: H,
}

impl<H: Fn() -> u64> Rehashed<H> {
    fn new(times: usize, hash: H) -> latchkv::Result<Rehashed<H>> {
        Ok(Rehashed { ready: Name::new(NAME)?, times, hash })
    }
}

impl<H: Fn() -> u64> AsName for Rehashed<H> {
    #[inline]
    fn as_name(&self) -> latchkv::Result<NameRef<'_>> {
        for _ in 0..self.times {
            black_box((self.hash)());
        }
        self.ready.as_name()
    }
}

/// One byte of the old hash.
#[inline(always)]
fn step(first: u64, second: u64, byte: u8) -> (u64, u64) {
    let mixed = (first & 63).wrapping_add(second).wrapping_mul(u64::from(byte));
    (first ^ mixed.wrapping_add(first << 8), second.wrapping_add(3))
}

/// The old hash, its state in memory.
fn in_memory(bytes: &Bytes) -> u64 {
    let state = [cell::Cell::new(1), cell::Cell::new(4)];
    add_bytes(bytes, &state[0], &state[1]);
    state[0].get()
}

/// Bytes and state may be the same memory, for all that the compiler knows, so each byte is followed by two stores.
#[inline(never)]
fn add_bytes(bytes: &Bytes, first: &cell::Cell<u64>, second: &cell::Cell<u64>) {
    for byte in bytes {
        let (next_first, next_second) = step(first.get(), second.get(), byte.get());
        first.set(next_first);
        second.set(next_second);
    }
}

/// The old hash, its state in registers.
#[inline(never)]
fn in_registers(bytes: &Bytes) -> u64 {
    let (mut first, mut second) = (1, 4);
    for byte in bytes {
        (first, second) = step(first, second, byte.get());
    }
    first
}

/// The engine's hash of the name, as one part. A call, as the others are.
#[cfg(feature = "measure")]
#[inline(never)]
fn in_words(bytes: &[u8]) -> u64 {
    latchkv::hash_of_part(bytes)
}

fn store(options: &latchkv::Options, path: &Path, data: &Data) -> Result<Store, Fail> {
    let access = Access { roles: 0, ..Access::new(Api::Session, 1) };
    let store = Store::create(path, options, access, NAMESPACE, &[TREE])?;
    let records = data.sorted().into_iter().map(|(key, at)| (key, data.value(at, 0)));
    store.trees()[0].bulk_load(records)?;
    Ok(store)
}

/// Runs it.
pub(super) fn run(setting: &Setting<'_>, report: &mut Report) -> Result<(), Fail> {
    let data = Data { seed: 1, records: u64::from(setting.rows) };
    let store = store(&setting.options(), &setting.path.join("latchkv"), &data)?;
    let variant = |&hashing: &Hashing| {
        let store = &store;
        Variant::new(format!("{hashing:?}"), move |keys: &[Key]| {
            store.on_session(|session| hashing.queries(session, keys))
        })
    };
    let variants: Vec<Variant<'_, Key>> = HASHINGS.iter().map(variant).collect();
    let ops = setting.timing.ops;
    let series = rounds::run(setting.timing, 1, &variants, |round| data.probes(round, ops))?;
    drop(variants);
    let counts = setting.count(Experiment::NameHash, HASHINGS.len())?;
    let instructions =
        |way: usize| counts.as_ref().map(|counts| counts[way] as f64 / OPERATIONS as f64);
    report.table(&ways(&series, instructions))?;

    let mut columns = vec!["change", "reported"];
    columns.extend(GAIN_COLUMNS);
    columns.push("in instructions [%]");
    let mut table = Table::new("name-hash: gains", &columns)
        .keyed_by(1)
        .told(&["reported", "in instructions [%]"]);
    let changes = [
        ("four -> one", Some("+1.7 %: 14593 to 14843 queries/s"), FOUR, ONE),
        #[cfg(feature = "measure")]
        ("one -> word", None, ONE, WORD),
        #[cfg(feature = "measure")]
        ("word -> ready", None, WORD, READY),
        ("text -> ready", None, TEXT, READY),
        ("four -> ready", None, FOUR, READY),
    ];
    for (change, reported, old, new) in changes {
        let mut row: Vec<Cell> = vec![change.into(), reported.into()];
        row.extend(gain(&series, old, new));
        let both = instructions(old).zip(instructions(new));
        row.push(both.map(|(old, new)| gain_percent(old, new)).into());
        table.push(row);
    }
    report.table(&table)?;
    store.close()
}

/// What a query costs, and the hash's part of it.
fn ways(series: &rounds::Series, instructions: impl Fn(usize) -> Option<f64>) -> Table {
    let columns = [
        "way",
        "queries/s",
        "instructions",
        "hash, of time [%]",
        "hash, of instructions [%]",
        "reported [%]",
    ];
    let mut table = Table::new("name-hash: reads by name, 1 thread", &columns)
        .note("the hash's part is what a query has over one with a ready name")
        .keyed_by(1)
        .told(&["instructions", "hash, of instructions [%]", "reported [%]"]);
    for (way, hashing) in HASHINGS.iter().enumerate() {
        let reported = match hashing {
            Hashing::Four => Cell::from("0.84"),
            Hashing::One => Cell::from("0.18"),
            _ => Cell::None,
        };
        let part = |all: f64, ready: f64| (all - ready) / all * 100.0;
        let of_time = 100.0 - 100.0 / series.ratio(way, READY).median;
        let both = instructions(way).zip(instructions(READY));
        table.push([
            format!("{hashing:?}").to_lowercase().into(),
            rate(series, way),
            instructions(way).into(),
            of_time.into(),
            both.map(|(all, ready)| part(all, ready)).into(),
            reported,
        ]);
    }
    table
}

/// Does queries each way, for callgrind.
pub(super) fn count(dir: &Path) -> Result<(), Fail> {
    let data = Data { seed: 1, records: u64::from(instructions::ROWS) };
    let store = store(&counted_options(), &dir.join("latchkv"), &data)?;
    let (warm_up, keys) = (data.probes(0, OPERATIONS), data.probes(1, OPERATIONS));
    for hashing in HASHINGS {
        store.on_session(|session| {
            hashing.queries(session, &warm_up)?;
            counted_by_callgrind(&mut || hashing.queries(session, &keys))
        })?;
    }
    store.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_forms_of_the_old_hash_agree_and_tell_names_apart() {
        let mut hashes = std::collections::HashSet::new();
        for number in 0..500 {
            let name = format!("sbtest/sbtest{number}");
            let bytes = bytes(&name);
            assert_eq!(in_memory(&bytes), in_registers(&bytes));
            hashes.insert(in_registers(&bytes));
        }
        assert_eq!(hashes.len(), 500);
    }

    #[test]
    fn every_way_finds_the_same_records() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = Data { seed: 1, records: 100 };
        let store = store(&counted_options(), &dir.path().join("db"), &data).expect("loads");
        let keys = data.probes(0, 50);
        let sum = |hashing: &Hashing| {
            store.on_session(|session| hashing.queries(session, &keys)).expect("reads")
        };
        let sums: Vec<u64> = HASHINGS.iter().map(sum).collect();
        assert!(sums.iter().all(|&sum| sum == sums[0]), "{sums:?}");
    }
}
