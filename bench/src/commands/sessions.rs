//! What sessions cost: reads and changes through them beside those of the plain API, rights looked up lazily and
//! eagerly, and names that are ready beside text.
//!
//! With `--count WHAT` one of them is done and nothing is timed: for a count of instructions by callgrind, where the
//! difference of two numbers of operations leaves loading and opening out.

use super::{Common, options};
use crate::Fail;
use crate::data::{Data, Key};
use crate::engines::Touch;
use crate::given::{MIB_MAX, up_to};
use crate::rounds::{self, Variant};
use latchkv::{Db, Name, Policy, Session, SessionOptions, SessionTree, Tree};
use serde_json::json;
use std::path::Path;
use std::sync::Mutex;

/// Options of `sessions`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Cache, in MiB
    #[arg(long, default_value_t = 512, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    /// Users, each with grants of its own, that the tables of rights hold beside the one at work
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    users: u32,
    /// Do one round of this alone, untimed
    #[arg(long, value_enum)]
    count: Option<What>,
}

/// One thing to be counted.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Nothing: loading and opening
    Nothing,
    /// Reads of the plain API
    PlainGet,
    /// Reads of a session by an open tree
    TreeGet,
    /// Reads of a session by a ready name
    NameGet,
    /// Reads of a session by text
    TextGet,
    /// Updates of the plain API
    PlainPut,
    /// Updates of a session, rights looked up lazily
    LazyPut,
    /// Updates of a session, rights looked up eagerly
    EagerPut,
    /// Deletes and inserts of a session, rights looked up lazily
    LazyReplace,
    /// Deletes and inserts of a session, rights looked up eagerly
    EagerReplace,
}

const TREE: &str = "shop/orders";
const PASSWORD: &[u8] = b"for a benchmark";

struct Stage {
    db: Db,
    tree: Tree,
    lazy: Session,
    eager: Session,
    value: [u8; 150],
}

impl Stage {
    fn new(args: &Args, data: &Data, path: &Path) -> Result<Stage, Fail> {
        let options = options(16384, args.cache_mib);
        let db = options.open(path)?;
        let sessions = db.sessions_with(SessionOptions::new())?;
        sessions.create_administrator("root", PASSWORD)?;
        let root = sessions.login("root", PASSWORD)?;
        root.create_namespace("shop")?;
        root.create_tree(TREE)?;
        // Users share a password hash's cost, roles do not have one: they are as many rows.
        for number in 0..args.users {
            let name = format!("role{number}");
            root.create_role(&name)?;
            root.grant(&name, &format!("shop/tree{number}").parse()?, "READ,WRITE".parse()?)?;
        }
        root.create_user("clerk", PASSWORD)?;
        root.grant("clerk", &"shop/*".parse()?, "READ,WRITE".parse()?)?;
        let lazy = sessions.login("clerk", PASSWORD)?;
        let eager = sessions.login("clerk", PASSWORD)?;
        eager.set_policy(Policy::Eager);
        let tree = db.tree(TREE)?;
        tree.bulk_load(data.sorted().into_iter().map(|(key, at)| (key, data.value(at, 0))))?;
        Ok(Stage { db, tree, lazy, eager, value: data.value(0, 1) })
    }

    fn do_one_round(&self, what: What, keys: &[Key]) -> Result<u64, Fail> {
        let open = self.lazy.tree(TREE)?;
        let eager = self.eager.tree(TREE)?;
        match what {
            What::Nothing => Ok(0),
            What::PlainGet => plain_get(&self.tree, keys),
            What::TreeGet => tree_get(&open, keys),
            What::NameGet => name_get(&self.lazy, &Name::new(TREE)?, keys),
            What::TextGet => text_get(&self.lazy, keys),
            What::PlainPut => plain_put(&self.tree, keys, &self.value),
            What::LazyPut => tree_put(&open, keys, &self.value),
            What::EagerPut => tree_put(&eager, keys, &self.value),
            What::LazyReplace => replace(&open, keys, &self.value),
            What::EagerReplace => replace(&eager, keys, &self.value),
        }
    }
}

fn sum(values: impl Iterator<Item = latchkv::Result<Option<u64>>>) -> Result<u64, Fail> {
    values
        .map(|value| Ok(value?.unwrap_or(0)))
        .try_fold(0_u64, |sum, value: Result<u64, Fail>| Ok(sum.wrapping_add(value?)))
}

fn touched(value: &[u8]) -> u64 {
    Touch::Ends.sum(value)
}

fn plain_get(tree: &Tree, keys: &[Key]) -> Result<u64, Fail> {
    sum(keys.iter().map(|key| tree.get_with(key, touched)))
}

fn tree_get(tree: &SessionTree<'_>, keys: &[Key]) -> Result<u64, Fail> {
    sum(keys.iter().map(|key| tree.get_with(key, touched)))
}

fn name_get(session: &Session, name: &Name, keys: &[Key]) -> Result<u64, Fail> {
    sum(keys.iter().map(|key| session.get_with(name, key, touched)))
}

fn text_get(session: &Session, keys: &[Key]) -> Result<u64, Fail> {
    sum(keys.iter().map(|key| session.get_with(TREE, key, touched)))
}

fn plain_put(tree: &Tree, keys: &[Key], value: &[u8]) -> Result<u64, Fail> {
    keys.iter().try_for_each(|key| tree.put(key, value))?;
    Ok(0)
}

fn tree_put(tree: &SessionTree<'_>, keys: &[Key], value: &[u8]) -> Result<u64, Fail> {
    keys.iter().try_for_each(|key| tree.put(key, value))?;
    Ok(0)
}

fn replace(tree: &SessionTree<'_>, keys: &[Key], value: &[u8]) -> Result<u64, Fail> {
    for key in keys {
        tree.delete(key)?;
        tree.insert(key, value)?;
    }
    Ok(0)
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let scratch = args.common.output.scratch()?;
    let ops = args.common.timing().ops;
    if let Some(what) = args.count {
        let data = args.common.data();
        let stage = Stage::new(args, &data, &scratch.path().join("latchkv"))?;
        plain_get(&stage.tree, &data.probes(0, data.records as usize))?;
        let sum = stage.do_one_round(what, &data.probes(1, ops))?;
        println!("{what:?}, {ops} operations, sum {sum}");
        return Ok(stage.db.close()?);
    }
    let more = json!({ "users": args.users, "cache_mib": args.cache_mib });
    let (data, mut report) = args.common.start("sessions", scratch.path(), 1, more)?;
    let stage = Stage::new(args, &data, &scratch.path().join("latchkv"))?;
    plain_get(&stage.tree, &data.probes(0, data.records as usize))?;
    // Sessions are for one thread at a time.
    let stage = Mutex::new(stage);
    let sets: [(&str, &[(&str, What)]); 4] = [
        (
            "point reads",
            &[
                ("plain", What::PlainGet),
                ("session, open tree", What::TreeGet),
                ("session, ready name", What::NameGet),
                ("session, text", What::TextGet),
            ],
        ),
        (
            "point reads, name once and each time",
            &[("ready name", What::NameGet), ("text", What::TextGet)],
        ),
        (
            "updates",
            &[("lazy", What::LazyPut), ("eager", What::EagerPut), ("plain", What::PlainPut)],
        ),
        ("deletes and inserts", &[("lazy", What::LazyReplace), ("eager", What::EagerReplace)]),
    ];
    for (title, set) in sets {
        let variants: Vec<Variant<'_, Key>> = set
            .iter()
            .map(|&(name, what)| {
                let stage = &stage;
                Variant::new(name, move |keys: &[Key]| {
                    let stage = stage.lock().map_err(|_| "a round has failed")?;
                    stage.do_one_round(what, keys)
                })
            })
            .collect();
        let series =
            rounds::run(args.common.timing(), 1, &variants, |round| data.probes(round, ops))?;
        report.series(title, &series)?;
    }
    report.finish()
}
