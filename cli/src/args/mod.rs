//! The command line: one struct a command, nothing but shape.
//!
//! Defaults and limits are said in the help texts, which are the reference; `docs/cli.md` explains. What is about
//! accounts, namespaces and trees as a whole is in [`admin`].

mod admin;

pub(crate) use admin::{
    Grant, NamespaceCommand, NewPassword, OnAccount, Revoke, RoleCommand, TreeCommand, UNNAMED,
    UserCommand,
};

use crate::input::Format;
use clap::{Args, Parser, Subcommand, ValueEnum};
use latchkv::Durability;
use std::ffi::OsString;
use std::path::PathBuf;

/// Tree that is used where none is named.
pub(crate) const DEFAULT_TREE: &str = "main";

const EXIT_CODES: &str =
    "Exit codes: 0 found or done, 1 not found, 2 wrong command line, 3 error, 4 not allowed.";

/// Load, read, write, scan, check and dump latchkv databases.
#[derive(Debug, Parser)]
#[command(name = "latchkv", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// No progress and no remarks, only results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Memory for cached pages, such as 64M or 2G
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) cache: Option<u64>,
    /// Page size of a database that is created: 4K, 8K, 16K, 32K or 64K; one that exists keeps its own
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_page_size)]
    pub(crate) page_size: Option<u32>,
    /// How files are read and written
    #[arg(long, global = true, value_enum, default_value_t = BackendArg::Auto)]
    pub(crate) backend: BackendArg,
}

/// Who a command acts as.
#[derive(Clone, Debug, Args)]
pub(crate) struct Who {
    /// Act as this account, and do only what it may; without it, as the owner of the files, who may do all but change
    /// accounts
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File with the password of --user, or - for standard input; without it LATCHKV_PASSWORD, or it is asked for
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
}

/// Ways of reading and writing files.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum BackendArg {
    /// The best that works here
    Auto,
    /// io_uring
    Uring,
    /// Read through a mapping
    Mmap,
    /// pread and pwrite
    Pread,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// Nothing: a kill may take back the last moments
    None,
    /// Until the operating system has it: survives a kill, not a power cut
    Buffered,
    /// Until the disk has it: survives a power cut
    Sync,
}

impl DurabilityArg {
    /// The same as the engine calls it.
    pub(crate) fn level(self) -> Durability {
        match self {
            DurabilityArg::None => Durability::None,
            DurabilityArg::Buffered => Durability::Buffered,
            DurabilityArg::Sync => Durability::Sync,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load a folder or a file into a tree; after an interruption, load the rest
    Load(Load),
    /// Print the value of a key
    Get(Get),
    /// Store a value under a key
    Put(Put),
    /// Delete a key
    Del(Del),
    /// Print keys, or records, in order
    Scan(Scan),
    /// Print the number of records
    Count(Count),
    /// Print the names of the trees
    Trees(OnDb),
    /// Print what the database is made of
    Stat(Stat),
    /// Read everything and say what is damaged
    Check(OnDb),
    /// Print what the log has that no checkpoint has yet
    Log(Log),
    /// Apply the log of a database that was not closed
    Recover(Recover),
    /// Write trees as text that db_load, `latchkv load` and, with --lmdb, mdb_load read
    Dump(Dump),
    /// Create, drop, rename or clear a tree
    #[command(subcommand)]
    Tree(TreeCommand),
    /// Create, drop or list namespaces, or make them read-only
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Add or drop accounts that can log in, set their passwords, or list all accounts
    #[command(subcommand)]
    User(UserCommand),
    /// Add or drop roles, which are sets of rights, or give them to accounts
    #[command(subcommand)]
    Role(RoleCommand),
    /// Grant rights to an account
    Grant(Grant),
    /// Take rights back that were granted
    Revoke(Revoke),
    /// Take files of this machine in, work on them with many threads, and prove the result
    Demo(Demo),
    /// Commit, say so on standard output, and go on until killed
    #[command(hide = true)]
    CommitUntilKilled(CommitUntilKilled),
}

/// A database and nothing else.
#[derive(Debug, Args)]
pub(crate) struct OnDb {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv recover`.
#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// Folder of the database
    pub(crate) db: PathBuf,
}

/// A database and a tree.
#[derive(Debug, Args)]
pub(crate) struct OnTree {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Tree
    #[arg(long, value_name = "T", default_value = DEFAULT_TREE)]
    pub(crate) tree: String,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// A key in a tree.
#[derive(Debug, Args)]
pub(crate) struct AtKey {
    /// Which tree.
    #[command(flatten)]
    pub(crate) on: OnTree,
    /// Key: text with the escapes \n \t \r \0 \\ \xHH, or hex:DIGITS
    #[arg(allow_negative_numbers = true)]
    pub(crate) key: OsString,
}

/// `latchkv load`.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Folder of the database; created if nothing is there
    pub(crate) db: PathBuf,
    /// A folder, a file, or - for standard input
    pub(crate) input: PathBuf,
    /// Tree to load into; without it `main`, or for dumps the names they hold
    #[arg(long, value_name = "T")]
    pub(crate) tree: Option<String>,
    /// Format of INPUT; without it, a folder is dir and a file is what its name ends in
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Leave bad lines and files out, count them, and load the rest
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// csv: the file has a header, and this column holds the keys
    #[arg(long, value_name = "NAME", requires = "value_column")]
    pub(crate) key_column: Option<String>,
    /// csv: the file has a header, and this column holds the values
    #[arg(long, value_name = "NAME", requires = "key_column")]
    pub(crate) value_column: Option<String>,
    /// Memory for sorting; input that fits is written in one sorted run
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    pub(crate) sort_memory: u64,
    /// Commit after this many records; after a megabyte in any case. With --user all of it is one commit
    #[arg(long, value_name = "ROWS", conflicts_with = "user", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) batch: u64,
    /// What each of these commits waits for; in the end all of it is on disk in any case
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = DurabilityArg::Buffered)]
    pub(crate) durability: DurabilityArg,
    /// Forget the load that was interrupted here, and load INPUT from its start; what that load wrote stays
    #[arg(long, conflicts_with = "user")]
    pub(crate) restart: bool,
    /// Leave out the accounts and namespaces of a dump, which are restored into a database that has none
    #[arg(long)]
    pub(crate) without_accounts: bool,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Where to look.
    #[command(flatten)]
    pub(crate) at: AtKey,
    /// KEY is hex digits, and so is what is printed
    #[arg(long)]
    pub(crate) hex: bool,
    /// Print the bytes of the value as they are, without a line end
    #[arg(long, conflicts_with = "hex")]
    pub(crate) raw: bool,
}

/// `latchkv put`.
#[derive(Debug, Args)]
pub(crate) struct Put {
    /// Where to write; the database and the tree are created if absent.
    #[command(flatten)]
    pub(crate) at: AtKey,
    /// Value, written like KEY; without it, the bytes of standard input
    #[arg(allow_negative_numbers = true)]
    pub(crate) value: Option<OsString>,
    /// KEY and VALUE are hex digits
    #[arg(long)]
    pub(crate) hex: bool,
    /// What the commit waits for; closing makes it durable in any case
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = DurabilityArg::Sync)]
    pub(crate) durability: DurabilityArg,
}

/// `latchkv del`.
#[derive(Debug, Args)]
pub(crate) struct Del {
    /// Where to delete.
    #[command(flatten)]
    pub(crate) at: AtKey,
    /// KEY is hex digits
    #[arg(long)]
    pub(crate) hex: bool,
    /// What the commit waits for; closing makes it durable in any case
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = DurabilityArg::Sync)]
    pub(crate) durability: DurabilityArg,
}

/// A part of a tree.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// First key, included
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) from: Option<OsString>,
    /// Last key, excluded
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) to: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<OsString>,
    /// Keys are hex digits, here and in what is printed
    #[arg(long)]
    pub(crate) hex: bool,
}

/// `latchkv scan`.
#[derive(Debug, Args)]
pub(crate) struct Scan {
    /// Where to look.
    #[command(flatten)]
    pub(crate) on: OnTree,
    /// Which part.
    #[command(flatten)]
    pub(crate) part: Part,
    /// From the greatest key down
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Stop after this many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print values too: key, TAB, value, as the tsv format has it
    #[arg(long)]
    pub(crate) values: bool,
}

/// `latchkv count`.
#[derive(Debug, Args)]
pub(crate) struct Count {
    /// Where to count.
    #[command(flatten)]
    pub(crate) on: OnTree,
    /// Which part.
    #[command(flatten)]
    pub(crate) part: Part,
}

/// `latchkv stat`.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// As one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv dump`.
#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Only this tree
    #[arg(long, value_name = "T")]
    pub(crate) tree: Option<String>,
    /// File to write, complete or not at all; without it, standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Readable characters as they are (format=print) instead of hex digits
    #[arg(long)]
    pub(crate) print: bool,
    /// Leave `database=` out, so that mdb_load and db_load write the main database; one tree only
    #[arg(long, requires = "tree")]
    pub(crate) unnamed: bool,
    /// Step past damaged pages, say on standard error what is lost, and write all the rest
    #[arg(long, conflicts_with = "user")]
    pub(crate) keep_going: bool,
    /// Write the line `mapsize=`, which mdb_load wants for more than a few records and db_load refuses
    #[arg(long)]
    pub(crate) lmdb: bool,
    /// As whom.
    #[command(flatten)]
    pub(crate) who: Who,
}

/// `latchkv log`.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Folder of the database, which nobody may have open
    pub(crate) db: PathBuf,
    /// Only records from this lsn on
    #[arg(long, value_name = "LSN", default_value_t = 0)]
    pub(crate) from: u64,
    /// Stop after this many records
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print values too, not only their lengths
    #[arg(long)]
    pub(crate) values: bool,
}

/// `latchkv demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder whose files are taken in; without it, sources and headers of this machine
    #[arg(long, value_name = "D")]
    pub(crate) dir: Option<PathBuf>,
    /// Seconds of the phase in which many threads read and write
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Keep the database and say where it is
    #[arg(long)]
    pub(crate) keep: bool,
    /// What commits wait for, except those of the process that is killed, which wait for the disk
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = DurabilityArg::None)]
    pub(crate) durability: DurabilityArg,
}

/// `latchkv commit-until-killed`: what `demo` starts and kills, and the tests too.
#[derive(Debug, Args)]
pub(crate) struct CommitUntilKilled {
    /// Folder of the database
    pub(crate) db: PathBuf,
    /// Number that keys and acknowledgements of this run carry
    #[arg(long, default_value_t = 0)]
    pub(crate) run: u32,
    /// Threads that commit
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// What each commit waits for before it is acknowledged
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = DurabilityArg::Sync)]
    pub(crate) durability: DurabilityArg,
}

/// Reads `4096`, `64K`, `256M`, `2G` or `1T`; units are powers of 1024, a B or iB after them is allowed.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let digits_end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(digits_end);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => {
            return Err(format!("{text:?} is no size: write bytes, or a number with K, M, G or T"));
        }
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("{text:?} is no size: write 64M, for example"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text} is more than this program can count"))
}

fn parse_page_size(text: &str) -> Result<u32, String> {
    match parse_size(text)? {
        bytes @ (4096 | 8192 | 16384 | 32768 | 65536) => Ok(bytes as u32),
        _ => Err("a page has 4K, 8K, 16K, 32K or 64K".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        for bad in ["", "M", "12X", "-1", "1.5G", "99999999999T"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_page_size("16K"), Ok(16384));
        assert!(parse_page_size("12K").is_err());
    }

    #[test]
    fn options_that_exclude_each_other_are_refused() {
        for line in [
            "latchkv scan d --prefix a --from b",
            "latchkv get d k --raw --hex",
            "latchkv load d i --key-column k",
            "latchkv dump d --unnamed",
            "latchkv load d i --batch 0",
            "latchkv put d k v --durability maybe",
            "latchkv get d k --password-file f",
            "latchkv dump d --keep-going --user ada",
            "latchkv load d i --restart --user ada",
            "latchkv load d i --batch 5 --user ada",
            "latchkv recover d --user ada",
            "latchkv grant d READ --to ada",
            "latchkv grant d READ,EXECUTE --on * --to ada",
            "latchkv grant d READ --on latchkv/accounts --to ada",
            "latchkv role grant d staff --from ada",
            "latchkv namespace read-only d shop on",
            "latchkv namespace create d a/b",
            "latchkv user add d a,b",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
        assert!(Cli::try_parse_from(["latchkv", "put", "d", "k", "-5"]).is_ok());
        assert!(Cli::try_parse_from(["latchkv", "scan", "d", "--from", "-a", "-q"]).is_ok());
        for line in [
            "latchkv grant d read,WRITE --on shop/* --to ada --user root",
            "latchkv revoke d ALL --on /* --from ada --user root --password-file -",
            "latchkv namespace read-only d / super",
            "latchkv load d i --user ada",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
