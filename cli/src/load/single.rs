//! A load by an account: one transaction, in which all of the input is, or nothing.
//!
//! Trees that are not there are made first, by definitions of their own: an empty one may be left of a load that failed.
//! The transaction is of any size, since what it has written goes to disk before it is committed.
//!
//! Tested in `tests/sessions.rs`.

use super::Filled;
use super::intake::{Intake, Mode, PieceWriter, Rules};
use super::run::Run;
use super::with_note;
use crate::access::session_tree_to_fill;
use crate::args::Global;
use crate::exit::Outcome;
use crate::input::Input;
use crate::interrupt::Interrupts;
use crate::progress::{Progress, Unit};
use latchkv::{
    Denied, Durability, Error, Session, SessionTransaction, SessionTree, TransactionOptions,
};

/// Reads and writes; on failure nothing is in the database but, perhaps, empty trees.
pub(super) fn fill(
    global: &Global,
    session: &Session,
    input: &Input,
    rules: &Rules,
    durability: Durability,
) -> Outcome<Filled> {
    let note = |failure| with_note(failure, "nothing was loaded", false);
    let reading = Progress::start(global.quiet, "reading", Unit::Bytes, input.bytes());
    let mut first = Intake::new(rules, Mode::Gather(Run::default()), reading);
    input.read(&mut first).map_err(note)?;
    let Intake { mode, tally, trees: names, .. } = first;

    let open = |name: &String| session_tree_to_fill(session, name);
    let trees = names.iter().map(open).collect::<Outcome<Vec<_>>>().map_err(note)?;
    let shown = Progress::start(global.quiet, "writing", Unit::Records, Some(tally.records));
    let mut writer = SingleWriter {
        trees: &trees,
        transaction: session.begin_with(&TransactionOptions::new().durability(durability))?,
        interrupts: rules.interrupts.clone(),
        shown,
    };
    let (written, tally) = match mode {
        Mode::Gather(mut run) => {
            run.sort();
            (writer.write_piece(&names, &run), tally)
        }
        _ => {
            let quiet = Progress::start(true, "", Unit::Bytes, None);
            let mode = Mode::Write { run: Run::default(), writer: &mut writer, pass_over: 0 };
            let mut second = Intake::new(rules, mode, quiet);
            let read = input.read(&mut second);
            (read.and_then(|()| second.finish()), second.tally)
        }
    };
    let commit = |writer: SingleWriter<'_, '_>| -> Outcome {
        writer.transaction.commit()?;
        Ok(session.sync()?)
    };
    written.and_then(|()| commit(writer)).map_err(note)?;

    let mut lengths = Vec::new();
    for (name, tree) in names.into_iter().zip(&trees) {
        match tree.len() {
            Ok(length) => lengths.push((name, length)),
            // Who may write need not be allowed to know what is there.
            Err(Error::Denied(Denied::NeedsRights { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Filled { tally, before: 0, lengths })
}

/// Writes into the trees of one transaction, which are in the order of their names in the input.
struct SingleWriter<'s, 't> {
    trees: &'t [SessionTree<'s>],
    transaction: SessionTransaction<'s>,
    interrupts: Interrupts,
    shown: Progress,
}

impl std::fmt::Debug for SingleWriter<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SingleWriter").field("trees", &self.trees.len()).finish_non_exhaustive()
    }
}

impl PieceWriter for SingleWriter<'_, '_> {
    fn write_piece(&mut self, _names: &[String], run: &Run) -> Outcome {
        for (index, records) in run.trees() {
            let tree = &self.trees[index as usize];
            for (key, value) in records.iter() {
                self.interrupts.check()?;
                self.transaction.put(tree, key, value)?;
                self.shown.add(1);
            }
        }
        Ok(())
    }
}
