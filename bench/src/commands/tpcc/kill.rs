//! The mix in a process of its own, with durable commits, that gets SIGKILL in the middle of them; then recovery, the
//! consistency conditions, and a look for every order that was acknowledged.
//!
//! ```text
//! parent   load, close                    sleep, SIGKILL, read to the end   open (recovers), check, close   again
//! child                   open, work, "w d o\n" for each New-Order that has committed
//! ```
//!
//! A killed process loses its memory, not what the operating system has: that the medium has it too is what the tests
//! of the engine with its simulated disk are for.

use super::stage::Stage;
use super::{Args, conditions, drive};
use crate::engines::api::Store;
use crate::report::{Report, Table};
use crate::workloads::tpcc::{DistrictId, NAMESPACE, TREES, Tpcc};
use crate::{Fail, progress};
use clap::ValueEnum;
use fastrand::Rng;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// An order that was acknowledged.
type Acknowledged = (DistrictId, u32);

/// Kills and recovers as often as asked.
pub(super) fn run(args: &Args, path: &Path, mut report: Report) -> Result<(), Fail> {
    Stage::load(args, path)?.close()?;
    let columns = ["kill", "threads", "acknowledged orders", "orders after", "open [ms]"];
    let mut table = Table::new("TPC-C, killed and recovered", &columns).keyed_by(2).note(
        "each time all orders acknowledged so far were there and consistency conditions 1 to 4 held; opening recovers",
    );
    let times = args.kill.unwrap_or(1);
    let mut rng = Rng::with_seed(args.seed);
    let mut acknowledged = Vec::new();
    let mut last = None;
    let bar = progress::bar(times.into(), "kills");
    for time in 1..=times {
        let threads = args.threads[(time - 1) as usize % args.threads.len()];
        let pause = Duration::from_millis(rng.u64(args.kill_ms / 4..=args.kill_ms));
        let seed = args.seed.wrapping_add(u64::from(time));
        let of_this_time =
            work_and_kill(&Args { threads: vec![threads], seed, ..args.clone() }, path, pause)?;
        let count = of_this_time.len();
        acknowledged.extend(of_this_time);
        let start = Instant::now();
        let store = Store::open(path, &args.options(), NAMESPACE, &TREES)?;
        let opened = start.elapsed();
        let tpcc = Tpcc::open(&store, args.rows())?;
        let checked =
            tpcc.check(store.db()).map_err(|error| format!("after kill {time}: {error}"))?;
        for &order in &acknowledged {
            if !tpcc.has_order(order)? {
                let (DistrictId { w, d }, o) = order;
                return Err(format!(
                    "after kill {time}: order {o} of warehouse {w}, district {d} was acknowledged and is not there"
                )
                .into());
            }
        }
        drop(tpcc);
        store.close()?;
        table.push([
            u64::from(time).into(),
            threads.into(),
            count.into(),
            checked.orders.into(),
            (opened.as_secs_f64() * 1e3).into(),
        ]);
        last = Some(checked);
        bar.step();
    }
    drop(bar);
    report.table(&table)?;
    if let Some(checked) = last {
        conditions(checked, &mut report)?;
    }
    report.finish()
}

/// Has a child work, kills it, and gives the orders that it has acknowledged.
fn work_and_kill(args: &Args, path: &Path, pause: Duration) -> Result<Vec<Acknowledged>, Fail> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(child_args(args, path))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let acknowledged = listen_and_kill(&mut child, pause);
    // Whatever went wrong: it is not to go on.
    let killed = child.kill();
    child.wait()?;
    killed?;
    let acknowledged = acknowledged?;
    if acknowledged.is_empty() {
        return Err("the child did not work: it says why above".into());
    }
    Ok(acknowledged)
}

fn listen_and_kill(child: &mut Child, pause: Duration) -> Result<Vec<Acknowledged>, Fail> {
    let stdout = child.stdout.take().ok_or("the child has no output")?;
    let (begun, has_begun) = mpsc::channel();
    let listener = std::thread::spawn(move || {
        let mut orders = Vec::new();
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        while stdout.read_line(&mut line)? > 0 {
            // A line that the kill has cut off was not said.
            if let Some(order) = line.strip_suffix('\n').and_then(order_of) {
                orders.push(order);
            }
            line.clear();
            let _ = begun.send(());
        }
        Ok::<_, std::io::Error>(orders)
    });
    // An error: it ended before it began.
    if has_begun.recv().is_ok() {
        std::thread::sleep(pause);
    }
    child.kill()?;
    Ok(listener.join().map_err(|_| "the listener panicked")??)
}

fn order_of(line: &str) -> Option<Acknowledged> {
    let mut words = line.split(' ');
    let at = DistrictId { w: words.next()?.parse().ok()?, d: words.next()?.parse().ok()? };
    Some((at, words.next()?.parse().ok()?))
}

/// Arguments by which this program is the child: all that its work depends on.
fn child_args(args: &Args, path: &Path) -> Vec<OsString> {
    fn named(value: impl ValueEnum) -> String {
        let value = value.to_possible_value();
        value.expect("no value of an option is hidden").get_name().to_owned()
    }
    let mut words: Vec<OsString> = vec!["tpcc".into(), "--child".into(), path.into()];
    let threads: Vec<String> = args.threads.iter().map(usize::to_string).collect();
    let latches = args.hash.page_hash_latches.map(|latches| latches.to_string());
    for (name, value) in [
        ("--warehouses", Some(args.warehouses.to_string())),
        ("--scale", Some(args.scale.to_string())),
        ("--threads", Some(threads.join(","))),
        ("--durability", Some(named(args.durability))),
        ("--home", Some(named(args.home))),
        ("--cache-mib", Some(args.cache_mib.to_string())),
        ("--page-size", Some(args.page_size.to_string())),
        ("--frame-hints", Some(named(args.frame_hints))),
        ("--page-hash-latches", latches),
        ("--seed", Some(args.seed.to_string())),
    ] {
        words.extend(value.into_iter().flat_map(|value| [name.into(), value.into()]));
    }
    words.extend(args.no_checkpoints.then(|| "--no-checkpoints".into()));
    words
}

/// Works, and says which orders are committed, until it is killed or nobody listens.
pub(super) fn child(args: &Args, path: &Path) -> Result<(), Fail> {
    let store = Store::open(path, &args.options(), NAMESPACE, &TREES)?;
    let tpcc = Tpcc::open(&store, args.rows())?;
    let threads = args.threads[0];
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|at| {
                let (store, tpcc) = (&store, &tpcc);
                scope.spawn(move || -> Result<(), Fail> {
                    let connection = store.plain();
                    let mut worker = tpcc.worker(&connection, drive::homes(args, at, threads))?;
                    let mut rng = Rng::with_seed(args.seed << 16 | at as u64);
                    loop {
                        if let Some((DistrictId { w, d }, o)) = worker.one(&mut rng)?.order {
                            // One write a line.
                            writeln!(std::io::stdout().lock(), "{w} {d} {o}")?;
                        }
                    }
                })
            })
            .collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.into_iter().try_for_each(|worker| worker.map_err(|_| "a worker panicked")?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser, Debug)]
    struct Tpcc {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_child_is_told_all_that_its_work_depends_on() {
        let given = "tpcc --warehouses 3 --scale 0.5 --threads 2,3 --home any --cache-mib 77 --page-size 4096 \
                     --frame-hints off --page-hash-latches 16 --seed 9 --no-checkpoints";
        let durable = given.split_whitespace().chain(["--durability", "sync"]);
        let Tpcc { args } = Tpcc::parse_from(durable);
        let Tpcc { args: of_child } = Tpcc::parse_from(child_args(&args, Path::new("here")));
        assert_eq!(of_child.child.as_deref(), Some(Path::new("here")));
        let of_child = Args { child: None, ..of_child };
        assert_eq!(format!("{of_child:?}"), format!("{args:?}"));
    }

    #[test]
    fn a_line_that_is_whole_names_an_order() {
        assert_eq!(order_of("3 7 3001"), Some((DistrictId { w: 3, d: 7 }, 3001)));
        assert_eq!(order_of("3 7"), None);
        assert_eq!(order_of("3 x 1"), None);
    }
}
