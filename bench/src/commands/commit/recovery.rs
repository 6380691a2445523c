//! Time to open a store whose process was killed, for three lengths of log.
//!
//! A child process puts the records and says that the last commit is durable; then it gets SIGKILL. What is timed
//! is opening and one look-up, by the wall clock and by what all threads of the process ran meanwhile. Engines with
//! a log are told to keep all of it. LMDB has none and redb walks its file instead; their figures only show that.

use super::child::{Job, Work};
use super::{Args, expect, series, turns};
use crate::Fail;
use crate::data::Data;
use crate::engines::durable::Setup;
use crate::report::{Report, file_bytes};
use crate::rounds::{Series, process_cpu_ns};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Lengths of logs, as parts of the data set.
const PARTS: [u64; 3] = [20, 10, 5];

pub(super) fn run(args: &Args, data: &Data, dir: &Path, report: &mut Report) -> Result<(), Fail> {
    let setup = Setup { keep_log: true, ..args.setup() };
    let mut opened = Vec::new();
    for part in PARTS {
        let ops = (data.records / part).max(1);
        let (mut times, mut ran) = (series(args), series(args));
        let mut sizes = vec![0; args.engines.len()];
        for round in 0..args.long_rounds {
            for (which, kind) in turns(args, round) {
                let path = dir.join(kind.name());
                let job = Job {
                    work: Work::Fill,
                    kind,
                    path: &path,
                    seed: data.seed,
                    count: ops,
                    threads: 1,
                    cache_mib: args.cache_mib,
                };
                job.run_and_kill()?;
                sizes[which] = file_bytes(&path)?;
                let (start, ran_before) = (Instant::now(), process_cpu_ns());
                let store = kind.open(&path, setup)?;
                expect(kind, &*store, data, ops - 1, Some(0))?;
                times.ns[which].push(start.elapsed().as_nanos() as f64 / ops as f64);
                ran.ns[which].push((process_cpu_ns() - ran_before) / ops as f64);
                for at in 0..ops {
                    expect(kind, &*store, data, at, Some(0))?;
                }
                store.close()?;
                std::fs::remove_dir_all(&path)?;
            }
        }
        report.series(&format!("open after a kill, {ops} puts in the log, an op each"), &times)?;
        report.series("the same by the processor time of the process", &ran)?;
        for (which, kind) in args.engines.iter().enumerate() {
            report.facts(json!({
                "engine": kind.name(), "log_ops": ops, "bytes_killed": sizes[which],
                "open_ms": times.median(which) * ops as f64 / 1e6,
            }))?;
        }
        opened.push((ops as f64, times, ran));
    }
    println!(
        "\nmilliseconds to open; operations a second between the shortest and the longest log, by the wall"
    );
    println!("clock and by the time for which threads ran");
    let [(short, shortest, ran_short), .., (long, longest, ran_long)] = &opened[..] else {
        return Err("there are no two lengths of log".into());
    };
    let between = |which: usize, shortest: &Series, longest: &Series| {
        let ns = longest.median(which) * long - shortest.median(which) * short;
        if ns > 0.0 {
            format!("{:.0} op/s", (long - short) * 1e9 / ns)
        } else {
            "does not grow".into()
        }
    };
    for (which, kind) in args.engines.iter().enumerate() {
        print!("  {:<10}", kind.name());
        for (ops, times, _) in &opened {
            print!("{:>10.1}", times.median(which) * ops / 1e6);
        }
        let (wall, ran) = (between(which, shortest, longest), between(which, ran_short, ran_long));
        println!("   {wall:>16}   {ran:>16}");
    }
    Ok(())
}
