//! `latchkv-bench`: measures latchkv, and other engines beside it.
//!
//! In order of descent: `commands` are the experiments, `engines` what they run on, `rounds` how it is timed,
//! `data` what it reads and writes, `latency`, `machine`, `progress` and `report` what is printed about it. docs/bench.md says how
//! to read the results.
//!
//! * \[B1] What is compared runs by turns in short rounds of one process, and the figure is the median of the
//!   ratios of each round, with its interval. Within the interval of 1 there is no winner.
//! * \[B2] All engines of a round get the same probes and must come to the same sum over what they read.

mod commands;
mod data;
mod engines;
mod latency;
mod machine;
mod progress;
mod report;
mod rounds;

use clap::{Parser, Subcommand};

/// Whatever went wrong; a benchmark only prints it.
type Fail = Box<dyn std::error::Error + Send + Sync>;

/// Measures latchkv, and other engines beside it.
#[derive(Parser)]
#[command(version, about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load, point reads and range reads, beside other engines (feature `peers`)
    Kv(commands::kv::Args),
    /// Durable commits, large transactions, recovery, beside other engines (feature `peers`)
    Commit(commands::commit::Args),
    /// Ways from parent to child: verified hints, trusted pointers, page hash
    Descent(commands::descent::Args),
    /// Load, reads and updates at several page sizes
    PageSize(commands::page_size::Args),
    /// Updates, inserts and mixed work, in operations a second
    Updates(commands::updates::Args),
    /// What sessions cost beside the plain API; rights lazily and eagerly; names ready and as text
    Sessions(commands::sessions::Args),
    /// Memory while a file many times the cache is read
    Rss(commands::rss::Args),
    /// Time to open databases of several sizes
    Open(commands::open::Args),
}

fn main() -> std::process::ExitCode {
    let run = match Args::parse().command {
        Command::Kv(args) => commands::kv::run(&args),
        Command::Commit(args) => commands::commit::run(&args),
        Command::Descent(args) => commands::descent::run(&args),
        Command::PageSize(args) => commands::page_size::run(&args),
        Command::Updates(args) => commands::updates::run(&args),
        Command::Sessions(args) => commands::sessions::run(&args),
        Command::Rss(args) => commands::rss::run(&args),
        Command::Open(args) => commands::open::run(&args),
    };
    match run {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latchkv-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
