//! One crash image: what a power cut left, recovered, perhaps after more power cuts and failures in the recovery, and
//! then looked at and worked with.

use crate::disks::{Lies, open};
use crate::oracle::{digest_of, read};
use crate::workload::options;
use fastrand::Rng;
use latchkv::io::sim::{CrashMode, Fault, MachineSnapshot, OpKind, Record, SimMachine};
use latchkv::{Db, Durability, Error};

/// Says whether what a database holds is allowed, and gives its digest.
pub(crate) type Judge<'a> = dyn Fn(&Db) -> Result<u64, String> + 'a;

/// How thoroughly an image is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Recovered once, looked at, used once.
    Plain,
    /// As the dice say: crashes and failures in the recovery, opened again, used on.
    Drawn,
}

/// Any mode; mostly that in which most can go wrong.
pub(crate) fn draw_mode(rng: &mut Rng) -> CrashMode {
    match rng.u8(0..10) {
        0..2 => CrashMode::LoseAll,
        2..4 => CrashMode::KeepAll,
        _ => CrashMode::Random,
    }
}

/// A failure, and the kind of call that meets it.
pub(crate) fn draw_fault(rng: &mut Rng) -> (Fault, OpKind) {
    let fault = if rng.bool() { Fault::Eio } else { Fault::Enospc };
    let kinds = match fault {
        Fault::Eio => &[OpKind::Any, OpKind::Write, OpKind::Sync, OpKind::Read][..],
        Fault::Enospc => &[OpKind::Write, OpKind::Allocate, OpKind::Change][..],
    };
    (fault, kinds[rng.usize(0..kinds.len())])
}

/// Whether what happens is to be told.
pub(crate) fn is_traced() -> bool {
    std::env::var_os("LATCHKV_IMAGES_TRACE").is_some()
}

/// Whether an error is one that a failing disk may lead to.
pub(crate) fn is_of_disk(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::Io { .. } | Error::Poisoned { .. })
}

fn check(db: &Db) -> Result<(), String> {
    let report = db.check(|_| {}).map_err(|error| format!("checking: {error}"))?;
    match report.problems.first() {
        None if report.is_ok() => Ok(()),
        first => Err(format!("{} problems, the first: {first:?}", report.problem_count)),
    }
}

fn same(db: &Db, digest: u64, when: &str) -> Result<(), String> {
    if digest_of(db)? == digest { Ok(()) } else { Err(format!("another state {when}")) }
}

/// Recovers the image of a power cut at `moment`, and holds it against `judge`.
pub(crate) fn verify(
    moment: &MachineSnapshot,
    mode: CrashMode,
    judge: &Judge<'_>,
    depth: Depth,
    rng: &mut Rng,
) -> Result<(), String> {
    let mut machine = moment.crash(rng.u64(..), mode);
    let mut known = None;
    let drawn = depth == Depth::Drawn;
    let again = if drawn && rng.u8(0..4) == 0 { rng.u8(1..4) } else { 0 };
    for _ in 0..again {
        machine = interrupted(&machine, judge, &mut known, rng)?;
    }
    let options = options(rng);
    let db = open_or_say(&machine, &options, "recovering")?;
    let digest = judged(&db, judge, known)?;
    check(&db)?;
    if drawn && rng.u8(0..4) == 0 {
        again_the_same(&machine, digest, rng)?;
    }
    let after = goes_on(&db)?;
    let reopened = match rng.u8(0..3) {
        0 => {
            db.close().map_err(|error| format!("closing: {error}"))?;
            machine
        }
        1 => {
            let left = machine.crash(rng.u64(..), CrashMode::Random);
            drop(db);
            left
        }
        _ => {
            drop(db);
            machine
        }
    };
    let db = open_or_say(&reopened, &options, "opening after work")?;
    same(&db, after, "after work on the recovered database")?;
    if rng.u8(0..4) == 0 { check(&db) } else { Ok(()) }
}

fn open_or_say(machine: &SimMachine, options: &latchkv::Options, when: &str) -> Result<Db, String> {
    open(machine, options, Lies::None).map_err(|error| format!("{when}: {error}"))
}

fn judged(db: &Db, judge: &Judge<'_>, known: Option<u64>) -> Result<u64, String> {
    match known {
        None => judge(db),
        Some(digest) => same(db, digest, "than one that was open before").map(|()| digest),
    }
}

/// A recovery that a power cut ends, or a failing disk and then a power cut. If it was open before that, what it held
/// is `known` from then on.
fn interrupted(
    machine: &SimMachine,
    judge: &Judge<'_>,
    known: &mut Option<u64>,
    rng: &mut Rng,
) -> Result<SimMachine, String> {
    let (is_faulty, earlier) = (rng.bool(), *known);
    machine.record_history(Record::Changes);
    let first = machine.snapshot();
    if is_faulty {
        let (fault, kind) = draw_fault(rng);
        let index = rng.u64(0..24);
        if is_traced() {
            println!("{fault:?} at {kind:?} {index}");
        }
        machine.fail_at(index, fault, kind);
    }
    let mut open_at = u64::MAX;
    let opened = open(machine, &options(rng), Lies::None);
    if is_traced() {
        println!(
            "a recovery, failing: {is_faulty}, to {} calls: {:?}",
            machine.snapshot().op(),
            opened.as_ref().map(drop)
        );
    }
    match opened {
        Ok(db) => {
            match judged(&db, judge, *known) {
                Ok(digest) => {
                    open_at = machine.snapshot().op();
                    *known = Some(digest);
                }
                Err(_) if is_faulty && db.health().is_err() => {}
                // A page that could not be read.
                Err(said) if is_faulty && said.starts_with("reading") => {}
                Err(said) => return Err(format!("in a recovery: {said}")),
            }
            drop(db);
        }
        Err(error) if is_faulty && is_of_disk(&error) => {}
        Err(error) => return Err(format!("in a recovery: {error}")),
    }
    let mut moments = machine.history();
    moments.insert(0, first);
    let moment = &moments[rng.usize(0..moments.len())];
    if moment.op() < open_at {
        // The cut came before anybody saw what it holds.
        *known = earlier;
    }
    let (seed, mode) = (rng.u64(..), draw_mode(rng));
    if is_traced() {
        println!("open at {open_at}, then {mode:?} after {} calls", moment.op());
    }
    Ok(moment.crash(seed, mode))
}

/// What was recovered is recovered, however the power goes now.
fn again_the_same(machine: &SimMachine, digest: u64, rng: &mut Rng) -> Result<(), String> {
    let mode = draw_mode(rng);
    let left = machine.crash(rng.u64(..), mode);
    let db = open_or_say(&left, &options(rng), "opening again")?;
    same(&db, digest, "when opened again")
}

/// A few commits; gives the digest of what they leave.
fn goes_on(db: &Db) -> Result<u64, String> {
    let said = |error: Error| format!("working on: {error}");
    let tree = db.tree("later").map_err(said)?;
    let mut batch = latchkv::WriteBatch::new();
    for number in 0..3u8 {
        batch.put(&tree, [number], vec![number; 300]).map_err(said)?;
    }
    if let Some(other) = db.trees().map_err(said)?.first() {
        let other = db.open_tree(other).map_err(said)?.ok_or("a tree without a name")?;
        batch.put(&other, "later", "too").map_err(said)?;
    }
    db.write_with(&batch, Durability::Sync).map_err(said)?;
    let mut transaction = db.begin().map_err(said)?;
    transaction.delete(&tree, [1]).map_err(said)?;
    transaction.commit().map_err(said)?;
    db.sync().map_err(said)?;
    let state = read(db)?;
    let there = state.get("later", &[0]).is_some() && state.get("later", &[1]).is_none();
    if there { Ok(state.digest()) } else { Err("work on the recovered database is lost".into()) }
}
