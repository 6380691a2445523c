//! `latchkv`: load, read, write, scan, check and dump databases from the command line.
//!
//! ```text
//! main      parses the command line, runs one command, turns its outcome into an exit code
//! args/     the shape of the command line
//! exit      exit codes and the failures behind them
//! keys      bytes as text: escapes and hex
//! open      opening for reading, for writing, creating
//! password  passwords from a file, the environment or the terminal
//! terminal  asking without showing
//! access    the plain API, or a session
//! interrupt Ctrl-C while a load runs
//! input/    formats that `load` reads
//! load/     two passes, sorting, batches, going on after an interruption
//! read      get, put, del, trees, stat, check, recover
//! log_out   log
//! define    tree, namespace
//! accounts  user, role, grant, revoke
//! stat_json what `stat --json` prints
//! scan      scan, count
//! dump_out  dump
//! dump_salvage  dump --keep-going
//! demo/     demo
//! progress  bars and lines on standard error
//! words     words of messages
//! ```
//!
//! Results go to standard output, everything else to standard error.

mod access;
mod accounts;
mod args;
mod define;
mod demo;
mod dump_out;
mod dump_salvage;
mod exit;
mod input;
mod interrupt;
mod keys;
mod load;
mod log_out;
mod open;
mod password;
mod progress;
mod read;
mod scan;
mod stat_json;
mod terminal;
mod words;

use args::{Cli, Command};
use clap::Parser;
use exit::{Failure, Outcome};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let quiet = cli.global.quiet;
    let Err(failure) = run(cli) else {
        return ExitCode::SUCCESS;
    };
    let silent = match failure {
        Failure::BrokenPipe => true,
        Failure::NotFound(_) => quiet,
        Failure::Usage(_)
        | Failure::Error(_)
        | Failure::NotClosed(_)
        | Failure::Denied(_)
        | Failure::Interrupted(_) => false,
    };
    if !silent {
        eprintln!("latchkv: {failure}");
    }
    ExitCode::from(failure.code())
}

fn run(cli: Cli) -> Outcome {
    let global = &cli.global;
    match cli.command {
        Command::Load(args) => load::load(global, args),
        Command::Get(args) => read::get(global, &args),
        Command::Put(args) => read::put(global, &args),
        Command::Del(args) => read::del(global, &args),
        Command::Scan(args) => scan::scan(global, &args),
        Command::Count(args) => scan::count(global, &args),
        Command::Trees(args) => read::trees(global, &args),
        Command::Stat(args) => read::stat(global, &args),
        Command::Check(args) => read::check(global, &args),
        Command::Log(args) => log_out::log(&args),
        Command::Recover(args) => read::recover(global, &args),
        Command::Dump(args) => dump_out::dump(global, &args),
        Command::Tree(command) => define::tree(global, &command),
        Command::Namespace(command) => define::namespace(global, &command),
        Command::User(command) => accounts::user(global, &command),
        Command::Role(command) => accounts::role(global, &command),
        Command::Grant(args) => accounts::grant(global, &args),
        Command::Revoke(args) => accounts::revoke(global, &args),
        Command::Demo(args) => demo::demo(global, &args),
        Command::CommitUntilKilled(args) => demo::commit_until_killed(global, &args),
    }
}
