//! What the ways from a parent to its child cost, on one tree: hints verified, hints taken for pointers, and
//! the page hash alone ([`frame_hints`](latchkv::Options::frame_hints) off).
//!
//! | variant | child found by | frame header |
//! |---|---|---|
//! | verified hint | hint | version begun and validated, ident compared |
//! | verified, short | hint | the same; no restarts, loads, repair: code as short as the next two |
//! | swizzled | hint, trusted | version begun and validated |
//! | bare pointer | hint, trusted | never looked at |
//! | page hash | cell of the hash | version begun and validated, ident compared |
//!
//! Swizzled against "verified, short" is the cost of verifying alone. The first four read the same frames of
//! one database; the page hash has the same file open a second time.

use super::{Common, HashArgs, memory, options};
use crate::Fail;
use crate::data::{Data, Key};
use crate::engines::Touch;
use crate::engines::ours::{self, Access, Order, Ours};
use crate::engines::store::Reader;
use crate::given::{MIB_MAX, up_to};
use crate::report::Report;
use crate::rounds::{self, Variant};
use serde_json::json;
use std::path::Path;

/// Options of `descent`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    hash: HashArgs,
    /// Page sizes, in bytes
    #[arg(long, value_delimiter = ',', default_values_t = [16384, 4096])]
    page_size: Vec<u32>,
    /// Bytes of records of the hot set, in KiB
    #[arg(long, default_value_t = 1024, value_parser = up_to::<u64>(MIB_MAX << 10))]
    hot_kib: u64,
    /// Cache of each of the two open databases, in MiB; must hold all
    #[arg(long, default_value_t = 2048, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let scratch = args.common.output.scratch()?;
    let more = json!({ "hot_kib": args.hot_kib, "page_hash_latches": args.hash.page_hash_latches });
    let (data, mut report) = args.common.start("descent", scratch.path(), 1, more)?;
    for &page_bytes in &args.page_size {
        let dir = tempfile::tempdir_in(scratch.path())?;
        at_page_size(args, &data, page_bytes, dir.path(), &mut report)?;
    }
    report.finish()
}

fn at_page_size(
    args: &Args,
    data: &Data,
    page_bytes: u32,
    dir: &Path,
    report: &mut Report,
) -> Result<(), Fail> {
    let path = dir.join("db");
    let options = options(page_bytes, args.cache_mib).page_hash_latches(args.hash.latches());
    println!("\npages of {page_bytes} bytes");
    ours::load(&path, &options, data, Order::Sorted)?.tell(data, report)?;
    let hinted = Ours::open("verified hint", &path, &options, Access::Read)?;
    let hashed = Ours::open("page hash", &path, &options.clone().frame_hints(false), Access::Read)?;
    for engine in [&hinted, &hashed] {
        engine.warm()?;
        // Scans do not come by every way that point reads come by.
        let keys: Vec<Key> = (0..data.records).map(|at| data.key(at)).collect();
        engine.reads(&keys, Touch::Ends)?;
        report.facts(memory(engine), json!({}))?;
    }
    let before = hinted.db.stats().pool;
    check(&hinted, data)?;
    let after = hinted.db.stats().pool;
    if (before.hash_hits, before.loads) != (after.hash_hits, after.loads) {
        return Err(
            "the tree is not resident and hinted throughout: give it a greater cache".into()
        );
    }

    let touch = Touch::Ends;
    let mut variants =
        vec![Variant::new("verified hint", |keys: &[Key]| hinted.reads(keys, touch))];
    #[cfg(feature = "measure")]
    {
        variants.push(Variant::new("verified, short", |keys: &[Key]| {
            trusting::<true, true>(&hinted, keys)
        }));
        variants
            .push(Variant::new("swizzled", |keys: &[Key]| trusting::<true, false>(&hinted, keys)));
        variants.push(Variant::new("bare pointer", |keys: &[Key]| {
            trusting::<false, false>(&hinted, keys)
        }));
    }
    variants.push(Variant::new("page hash", |keys: &[Key]| hashed.reads(keys, touch)));

    let ops = args.common.timing().ops;
    let series = rounds::run(args.common.timing(), 1, &variants, |round| data.probes(round, ops))?;
    let title = format!("uniform over {} MiB, pages of {page_bytes}", data.raw_bytes() >> 20);
    report.series(&title, &series)?;

    let hot = hot_keys(data, args.hot_kib << 10);
    let series = rounds::run(args.common.timing(), 1, &variants, |round| {
        let mut random = fastrand::Rng::with_seed(round ^ data.seed);
        (0..ops * 2).map(|_| hot[random.usize(0..hot.len())]).collect()
    })?;
    let title = format!("hot set of {} KiB, pages of {page_bytes}", args.hot_kib);
    report.series(&title, &series)?;
    Ok(())
}

/// Keys that lie side by side and whose records take `bytes`.
fn hot_keys(data: &Data, bytes: u64) -> Vec<Key> {
    let sorted = data.sorted();
    let count = (bytes / crate::data::RECORD_BYTES).clamp(1, data.records) as usize;
    let from = (sorted.len() - count) / 2;
    sorted[from..from + count].iter().map(|&(key, _)| key).collect()
}

/// Every key is read right by every way.
fn check(engine: &Ours, data: &Data) -> Result<(), Fail> {
    for at in 0..data.records {
        let (key, value) = (data.key(at), data.value(at, 0));
        let is_right = |found: &[u8]| *found == value;
        let found = [
            engine.tree.get_with(key, is_right)?,
            #[cfg(feature = "measure")]
            engine.tree.get_trusting::<true, true, _>(&key, is_right)?,
            #[cfg(feature = "measure")]
            engine.tree.get_trusting::<true, false, _>(&key, is_right)?,
            #[cfg(feature = "measure")]
            engine.tree.get_trusting::<false, false, _>(&key, is_right)?,
        ];
        if found.iter().any(|&right| right != Some(true)) {
            return Err(format!("record {at} was read wrong").into());
        }
    }
    Ok(())
}

#[cfg(feature = "measure")]
fn trusting<const VERSIONS: bool, const IDENTS: bool>(
    engine: &Ours,
    keys: &[Key],
) -> Result<u64, Fail> {
    let mut sum = 0_u64;
    for key in keys {
        let part =
            engine.tree.get_trusting::<VERSIONS, IDENTS, _>(key, |value| Touch::Ends.sum(value))?;
        sum = sum.wrapping_add(part.ok_or("a key is absent")?);
    }
    Ok(sum)
}
