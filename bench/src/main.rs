//! `latchkv-bench`: measures latchkv, and other engines beside it.
//!
//! In order of descent: `commands` are the experiments, `engines` what they run on, `rounds` how it is timed, `team` the
//! threads of it, `interval` what follows from it, `workloads` what is done to a store, `data` what is read and written,
//! `scratch` where databases lie, `given` what may be asked for, `latency`, `machine`, `emulation`, `progress`, `table` and
//! `report` what is printed about it, `render` what is made of files of reports. docs/bench.md says how to read the results.
//!
//! * \[B1] What is compared runs by turns in short rounds of one process, and the figure is the median of the
//!   ratios of each round, with its interval. Within the interval of 1 there is no winner.
//! * \[B2] All engines of a round get the same probes and must come to the same sum over what they read.

mod commands;
mod data;
mod emulation;
mod engines;
mod given;
mod interval;
mod latency;
mod machine;
mod progress;
mod render;
mod report;
mod rounds;
mod scratch;
mod table;
mod team;
mod workloads;

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
    /// latchkv beside other engines (feature `peers`): loads, writes, reads, sizes, recovery
    Kv(commands::kv::Args),
    /// Line transfers an operation of look-ups, on up to 192 cores of a model (feature `trace`)
    Coherence(commands::coherence::Args),
    /// Ways from parent to child: verified hints, trusted pointers, page hash
    Descent(commands::descent::Args),
    /// Load, reads and updates at several page sizes
    PageSize(commands::page_size::Args),
    /// Updates, inserts and mixed work, in operations a second
    Updates(commands::updates::Args),
    /// What sessions cost beside the plain API; rights lazily and eagerly; names ready and as text
    Sessions(commands::sessions::Args),
    /// Microbenchmarks of sysbench, with latencies
    Sysbench(commands::sysbench::Args),
    /// YCSB A to F, with latencies
    Ycsb(commands::ycsb::Args),
    /// Gains that were reported of other engines, measured here
    Seeds(commands::seeds::Args),
    /// The fast paths as machine code for several processors: instructions, atomics, cycles of a model
    Static(commands::static_paths::Args),
    /// Memory while a file many times the cache is read
    Rss(commands::rss::Args),
    /// Time to open databases of several sizes
    Open(commands::open::Args),
    /// TPC-C: the five transactions by their mix, with consistency conditions; killed and recovered
    Tpcc(commands::tpcc::Args),
    /// The latch and the cells of the page hash beside other locks, alone and contended
    Latch(commands::latch::Args),
    /// Files of the same command, of two or more machines, side by side
    Compare(commands::compare::Args),
    /// All files of a directory as a page, as Markdown, or in the tables of a document
    Report(commands::report::Args),
}

fn main() -> std::process::ExitCode {
    let run = match Args::parse().command {
        Command::Kv(args) => commands::kv::run(&args),
        Command::Coherence(args) => commands::coherence::run(&args),
        Command::Descent(args) => commands::descent::run(&args),
        Command::PageSize(args) => commands::page_size::run(&args),
        Command::Updates(args) => commands::updates::run(&args),
        Command::Sessions(args) => commands::sessions::run(&args),
        Command::Sysbench(args) => commands::sysbench::run(&args),
        Command::Ycsb(args) => commands::ycsb::run(&args),
        Command::Seeds(args) => commands::seeds::run(&args),
        Command::Static(args) => commands::static_paths::run(&args),
        Command::Rss(args) => commands::rss::run(&args),
        Command::Open(args) => commands::open::run(&args),
        Command::Tpcc(args) => commands::tpcc::run(&args),
        Command::Latch(args) => commands::latch::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Report(args) => commands::report::run(&args),
    };
    match run {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latchkv-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Args::command().debug_assert();
    }
}
