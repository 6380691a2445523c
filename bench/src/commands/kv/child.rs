//! What this program is started as by itself: a process that works on a store, says so, and waits to be killed.
//!
//! ```text
//! parent   start ------------------------> wait for the line -> SIGKILL, or end of input
//! child            open, work, "ready\n" ------------------------^ ends without closing the store
//! ```

use crate::Fail;
use crate::data::Data;
use crate::engines::kind::Kind;
use crate::engines::store::Setup;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of the child.
#[derive(clap::Args, Clone, Debug)]
// The group would have the name of that of the command's own options.
#[group(skip)]
pub(super) struct Args {
    /// Work on the store in this directory, as a child of this program
    #[arg(long, hide = true, requires = "child_work", value_name = "DIR")]
    child: Option<PathBuf>,
    /// What to do there
    #[arg(long, hide = true, value_enum)]
    child_work: Option<Work>,
    /// By which engine
    #[arg(long, hide = true, value_enum, default_value = "latchkv")]
    child_engine: Kind,
    /// How many records
    #[arg(long, hide = true, default_value_t = 0)]
    child_count: u64,
    /// On how many threads
    #[arg(long, hide = true, default_value_t = 1)]
    child_threads: u64,
    /// Seed of the data
    #[arg(long, hide = true, default_value_t = 1)]
    child_seed: u64,
    /// Cache, in MiB
    #[arg(long, hide = true, default_value_t = 64)]
    child_cache_mib: u64,
}

/// What a child does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Work {
    /// Makes the longest log of the records
    Fill,
    /// Puts each record in a durable commit, with syncs that can be counted
    Each,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Fill => "fill",
            Work::Each => "each",
        }
    }
}

impl Args {
    pub(super) fn is_given(&self) -> bool {
        self.child.is_some()
    }
}

/// Does the work, and waits for the end of the input.
pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let path = args.child.as_ref().ok_or("a directory is needed")?;
    let work = args.child_work.ok_or("a work is needed")?;
    let setup = Setup {
        cache_bytes: args.child_cache_mib << 20,
        durable: true,
        keep_log: work == Work::Fill,
        plain_syncs: work == Work::Each,
    };
    let data = Data { seed: args.child_seed, records: args.child_count };
    let store = args.child_engine.open(path, setup)?;
    match work {
        Work::Fill => store.fill_log(&mut (0..data.records).map(|at| data.record(at, 0)))?,
        Work::Each => std::thread::scope(|scope| {
            let threads = args.child_threads.max(1);
            let writers: Vec<_> = (0..threads)
                .map(|thread| {
                    let store = &*store;
                    scope.spawn(move || {
                        let mine = (thread..data.records).step_by(threads as usize);
                        store.put_each(&mut mine.map(|at| data.record(at, 0)))
                    })
                })
                .collect();
            for writer in writers {
                writer.join().map_err(|_| "a writer panicked")??;
            }
            Ok::<(), Fail>(())
        })?,
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // Closing would sync more, and tidy up what is to be found as it is.
    std::mem::forget(store);
    Ok(())
}

/// What a child is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) work: Work,
    pub(super) kind: Kind,
    pub(super) path: &'a Path,
    pub(super) seed: u64,
    /// Number of records.
    pub(super) count: u64,
    pub(super) threads: u64,
    pub(super) cache_mib: u64,
}

impl Job<'_> {
    /// Arguments by which this program is the child.
    pub(super) fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["kv".into(), "--child".into(), self.path.into()];
        for (name, value) in [
            ("--child-work", self.work.name().to_owned()),
            ("--child-engine", self.kind.name().to_owned()),
            ("--child-seed", self.seed.to_string()),
            ("--child-count", self.count.to_string()),
            ("--child-threads", self.threads.to_string()),
            ("--child-cache-mib", self.cache_mib.to_string()),
        ] {
            args.extend([name.into(), value.into()]);
        }
        args
    }

    /// Has it done by a child, which is then killed.
    pub(super) fn run_and_kill(&self) -> Result<(), Fail> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(self.args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the child has no output")?;
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        child.kill()?;
        child.wait()?;
        read?;
        if line == "ready\n" {
            return Ok(());
        }
        Err(format!("{}: the child did not do its work", self.kind.name()).into())
    }
}
