//! Every record overwritten twenty times on average, uniformly at random, and what the files take meanwhile.
//!
//! All puts are durable. The stores have their passes by turns. Files are looked at after each pass, and once more
//! when the store is closed.

use super::contest::{Contest, Costs, Unit};
use super::overwrite::{live, numbers, overwrite};
use super::{Args, expect, over_raw};
use crate::Fail;
use crate::data::Data;
use crate::engines::kind::Kind;
use crate::engines::store::BATCH_RECORDS;
use crate::report::Report;
use std::path::Path;
use std::time::Instant;

/// How many times the data are overwritten.
const PASSES: u64 = 20;

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let live = live(data);
    let mut stands = contest.loaded(args, args.setup(), &live, live.records, dir);
    let new = |stands: &[super::contest::Stand]| Costs::new(stands.iter().map(|stand| stand.kind));
    let (mut times, mut last, mut closed) = (new(&stands), new(&stands), new(&stands));
    let mut greatest: Vec<(Kind, f64)> = stands.iter().map(|stand| (stand.kind, 0.0)).collect();
    let mut versions = vec![0; usize::try_from(live.records)?];
    for pass in 1..=PASSES {
        let numbers = numbers(&live, pass)?;
        Contest::in_turn(&mut stands, pass as usize);
        contest.on_each(&mut stands, "overwriting", |stand| {
            let start = Instant::now();
            overwrite(&*stand.store, &live, &numbers, pass)?;
            times.push(stand.kind, start.elapsed().as_nanos() as f64 / live.records as f64);
            let bytes = over_raw(&stand.path, &live)?;
            if let Some((_, greatest)) = greatest.iter_mut().find(|(kind, _)| *kind == stand.kind) {
                *greatest = greatest.max(bytes);
            }
            if pass == PASSES {
                last.push(stand.kind, bytes);
            }
            Ok(())
        });
        for at in numbers {
            versions[at as usize] = pass;
        }
    }
    contest.on_each(&mut stands, "looking at what was overwritten", |stand| {
        let all = versions.iter().enumerate();
        expect(&*stand.store, &live, all.map(|(at, &version)| (at as u64, Some(version))))
    });
    let mut most = new(&stands);
    for (kind, greatest) in greatest {
        most.push(kind, greatest);
    }
    let paths: Vec<_> = stands.iter().map(|stand| (stand.kind, stand.path.clone())).collect();
    contest.close(stands);
    for (kind, path) in paths {
        closed.push(kind, over_raw(&path, &live)?);
    }
    let title = format!("{} records overwritten, durable by {BATCH_RECORDS}", live.records);
    contest.tell(report, &title, Unit::DurableNs, &times)?;
    contest.tell(report, "files: greatest after a pass of overwrites", Unit::OverRaw, &most)?;
    contest.tell(report, "files after the last pass of overwrites", Unit::OverRaw, &last)?;
    contest.tell(report, "files after overwriting, closed", Unit::OverRaw, &closed)
}
